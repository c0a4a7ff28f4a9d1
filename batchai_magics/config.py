"""All settings with their defaults and environment variables; one configuration file, read once.

The file is `config.yaml` in the platform's configuration folder, or the one named by `BATCHAI_CONFIG`.
Environment variables take precedence. Settings of one backend are in a section named after it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from batchai_magics.errors import UsageError, did_you_mean

APP = "batchai"
PREFIX = "BATCHAI_"
_MAX_FILE_BYTES = 1 << 20
DEFAULT_GRACE = "30s"  # `launch.plan.GRACE_S`
DEFAULT_ACCOUNT = "local"  # the built-in storage account, which needs no key

Value = TypeVar("Value")
BackendSettings = TypeVar("BackendSettings")


def setting(default: Value, help: str, *, is_secret: bool = False, may_be_zero: bool = False) -> Value:
    """Declare a setting with its default and description; an integer is positive, unless it may be 0."""
    metadata = {"help": help, "may_be_zero": may_be_zero}
    setting_field: Value = field(default=default, repr=not is_secret, metadata=metadata)
    return setting_field


def default_home(backend: str = "") -> Path:
    """The folder of this user's data, or a backend's folder in it."""
    import platformdirs

    return Path(platformdirs.user_data_dir(APP, appauthor=False), backend)


@dataclass(frozen=True)
class Settings:
    """The general settings, each read from `BATCHAI_<NAME>` or from the file under its name."""

    backend: str = setting("local", "where jobs run")
    subscription: str = setting("00000000-0000-0000-0000-000000000000", "the subscription in every id")
    resource_group: str = setting("batchai", "the resource group in every id")
    workspace: str = setting("default", "the workspace used when none is named")
    experiment: str = setting("default", "the experiment used when none is named")
    cluster: str = setting("default", "the cluster used when none is named")
    cluster_nodes: int = setting(2, "nodes of the default cluster when it is created")
    cluster_vm_size: str = setting(
        "Standard_D2", "VM size of the default cluster; on a machine with GPUs, `local` takes one with GPUs"
    )
    location: str = setting("local", "location of a workspace that is created automatically")
    share: str = setting("batchaishare", "the share that holds scripts and logs")
    share_mount: str = setting("autoafs", "where that share is mounted, below the mount root")
    storage_account: str = setting("", "storage account of mounts, where a line or a file names none")
    storage_key: str = setting("", "its key", is_secret=True)
    provenance: str = setting("full", "what runs record of their code, variables and git state: full, none")
    run_policy: str = setting("reuse", "what an unchanged cell does: reuse (show its run), new (run again)")
    notify: str = setting("", "where notifications go: URLs or commands, one per line", is_secret=True)
    notify_link: str = setting("", "link in notifications; {name} and {experiment} are the job's")
    notify_lines: bool = setting(False, "whether notifications have the last lines of a process that failed")
    notify_stalled: int = setting(
        10, "minutes without output that count as no progress; 0: never", may_be_zero=True
    )
    pass_env: str = setting("", "more variables that jobs inherit: DATA_*, MY_FLAG; never secrets")
    grace: str = setting(DEFAULT_GRACE, "how long processes may take to save when a job is told to end: 2m")
    ui: str = setting("auto", "how jobs are shown: auto, widget, html, text")
    headline_metric: str = setting("", "the metric that represents a run; by default what it is trained for")
    rising_metrics: str = setting("", "metrics of which higher values are better, separated by commas")
    falling_metrics: str = setting("", "metrics of which lower values are better, separated by commas")
    prices: str = setting("", "price of a node per hour, by VM size or partition: Standard_NC6=0.9; gpu=3.06")
    currency: str = setting("USD", "the currency of these prices")
    max_nodes: int = setting(256, "the most nodes of a job")
    max_processes: int = setting(2048, "the most processes of a job")
    max_environment_kib: int = setting(128, "the largest size of a job's variables, once they are expanded")
    sections: Mapping[str, Any] = field(default_factory=dict)  # the settings of each backend, by its name

    def for_backend(self, kind: type[BackendSettings]) -> BackendSettings:
        """The settings of the backend with this settings type, or their defaults."""
        settings = next((section for section in self.sections.values() if isinstance(section, kind)), None)
        return kind() if settings is None else settings


class Backends(Collection[str], Protocol):
    """What the configuration needs to know about backends: their names and settings types."""

    @property
    def builtin(self) -> Collection[str]:
        """Backends whose settings are always loaded, because that is free."""

    def settings_type(self, name: str) -> type[Any] | None:
        """The frozen dataclass of a backend's settings, all with defaults; None if it has none.

        Settings named in its `ALSO_GENERAL` may also be given as general settings.
        """


CHOICES = {
    "ui": ("auto", "widget", "html", "text"),
    "provenance": ("full", "none"),
    "run_policy": ("reuse", "new"),
}  # setting → allowed values
TABLES = ("prices",)  # settings with a number of at least 0 by name, as a mapping in the file or as text


def load(env: Mapping[str, str] | None = None, *, path: Path | None = None, backends: Backends) -> Settings:
    """Load the settings of this process: defaults, then the file, then the environment.

    Raises:
        UsageError: A setting is unknown or invalid; names the setting and its file or variable.
    """
    env = os.environ if env is None else env
    file = path or _file(env)
    file_values = _read(file, backends)
    sources = _Sources(file, file_values, env)
    settings = Settings(**sources.values(general_settings(), choices={**CHOICES, "backend": backends}))
    sections = {name for name, value in file_values.items() if isinstance(value, dict) and name not in TABLES}
    names = {settings.backend, *sections}
    backend_settings = {
        name: kind(**sources.values(fields(kind), backend=name, also=getattr(kind, "ALSO_GENERAL", ())))
        for name in (*names, *backends.builtin)
        if (kind := backends.settings_type(name))
    }
    return replace(settings, sections=backend_settings)


def general_settings() -> tuple[Field[Any], ...]:
    """The dataclass fields of the general settings; `metadata["help"]` describes them."""
    return tuple(item for item in fields(Settings) if item.name != "sections")


@dataclass(frozen=True)
class _Sources:
    """Where settings are read from: a parsed file and the environment."""

    file: Path
    file_values: Mapping[str, Any]
    env: Mapping[str, str]

    def values(
        self,
        items: Collection[Field[Any]],
        *,
        backend: str = "",
        also: Collection[str] = (),
        choices: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """The settings that a source has, by name: the last source wins, and the values of all are validated.

        Args:
            items: General settings, or a backend's.
            backend: The backend; empty for general settings.
            also: The settings of the backend that may also be given as general ones.
            choices: The valid values, by setting.

        Raises:
            UsageError: A value is invalid; names the setting and its file or variable.
        """
        values: dict[str, Any] = {}
        for item in items:
            candidates: list[tuple[Any, str]] = []
            owners = ("", backend) if item.name in also else (backend,)
            for owner in owners:
                section = (self.file_values.get(owner) or {}) if owner else self.file_values
                candidates.append((section.get(item.name), f"{_full_name(item.name, owner)} in {self.file}"))
            for owner in owners:
                variable = environment_variable(item.name, owner)  # an empty one counts as unset
                source = f"{_full_name(item.name, owner)} ({variable})"
                candidates.append((self.env.get(variable) or None, source))
            for value, source in candidates:
                if value is not None:
                    values[item.name] = _typed(item, value, source, choices.get(item.name))
        return values


def _full_name(name: str, backend: str) -> str:
    return f"setting {backend}.{name}" if backend else f"setting {name}"


def save(values: Mapping[str, Any], env: Mapping[str, str] | None = None, *, backends: Backends) -> Path:
    """Save settings to the file that `load` reads, keeping its other contents; returns its path.

    Raises:
        UsageError: The existing file cannot be read, or not be changed line by line; nothing is written then.
    """
    import yaml

    file = _file(os.environ if env is None else env)
    before = _read(file, backends)
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    other_lines = [line for line in lines if line.partition(":")[0].rstrip() not in values]
    added = [f"{name}: {json.dumps(value)}" for name, value in values.items()]
    text = "\n".join([*other_lines, *added]) + "\n"
    try:
        is_changed = yaml.safe_load(text) == {**before, **values}
    except yaml.YAMLError:  # such as after `{workspace: mine}`, or where a value had several lines
        is_changed = False
    if not is_changed:
        hint = (
            "Write each setting on a line of its own, such as `workspace: mine`, or change the file yourself."
        )
        raise UsageError(f"{file} cannot be changed: {', '.join(values)}", hint=hint)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.part")
    part.touch(mode=0o600)
    part.write_text(text, encoding="utf-8")
    return part.replace(file)


def _file(env: Mapping[str, str]) -> Path:
    path = env.get(PREFIX + "CONFIG")
    return Path(path).expanduser() if path else config_path()


def config_path() -> Path:
    """The default location of the configuration file."""
    import platformdirs

    return Path(platformdirs.user_config_dir(APP, appauthor=False)) / "config.yaml"


def _read(file: Path, backends: Backends) -> dict[str, Any]:
    """The contents of the file: general settings, and a mapping for each backend with a section."""
    data = _yaml(file) if file.exists() else {}
    if not isinstance(data, dict):
        hint = f"write lines such as `workspace: mine`; {_known_settings()}"
        raise UsageError(f"{file} holds no settings", hint=hint)
    for name, value in data.items():
        if name in _names(general_settings()):
            continue
        if isinstance(value, dict) and name in backends:
            _check_names(value, backends.settings_type(name), f"{file}: {name}")
            continue
        kinds = map(backends.settings_type, backends)
        also_general = [item for kind in kinds for item in getattr(kind, "ALSO_GENERAL", ())]
        if name not in also_general:
            known = (*_names(general_settings()), *also_general, *backends)
            hint = did_you_mean(str(name), known) or _known_settings()
            raise UsageError(f"{file}: unknown setting {name!r}", hint=hint)
    return data


def _known_settings() -> str:
    return f"known settings: {', '.join(_names(general_settings()))}"


def _check_names(section: Mapping[str, Any], kind: type[Any] | None, source: str) -> None:
    known = _names(fields(kind)) if kind else []
    for name in section:
        if name not in known:
            hint = did_you_mean(str(name), known) or f"known settings: {', '.join(known) or 'none'}"
            raise UsageError(f"{source}: unknown setting {name!r}", hint=hint)


def _names(items: Collection[Field[Any]]) -> list[str]:
    return [item.name for item in items]


def _yaml(file: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(_text(file)) or {}
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, TypeError) as error:
        raise UsageError(f"{file} is not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise UsageError(f"{file} is not valid YAML: it is nested too deeply, or in itself") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None


def _text(file: Path) -> str:
    """The text of a file; does not block on pipes and limits the size, for devices."""
    descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as stream:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            raise UsageError(f"{file} is a named pipe", hint="Settings are read from a file.")
        data = stream.read(_MAX_FILE_BYTES + 1) or b""
    if len(data) > _MAX_FILE_BYTES:
        raise UsageError(f"{file} is larger than {_MAX_FILE_BYTES >> 20} MiB: it holds no settings")
    return data.decode("utf-8")


def environment_variable(name: str, backend: str = "") -> str:
    """The environment variable of a general or backend setting."""
    return PREFIX + (f"{backend}_{name}" if backend else name).upper().replace("-", "_")


def _typed(item: Field[Any], value: Any, source: str, choices: Collection[str] | None) -> Any:
    """Convert a value to the setting's type; UsageError that starts with `source`."""
    if item.name in TABLES:
        return _checked_table(value, source)
    if isinstance(item.default, bool):
        return _boolean(value, source)
    if isinstance(value, (dict, list, bool)):
        raise UsageError(f"{source}: expected one value, got {value!r}")
    text = str(value).strip()
    if choices is not None:
        if text.lower() not in choices:
            hint = did_you_mean(text, choices) or f"one of {', '.join(choices)}"
            raise UsageError(f"{source}: {text!r} is not a valid value", hint=hint)
        return text.lower()
    if isinstance(item.default, int):
        return _count(text, source, may_be_zero=item.metadata.get("may_be_zero", False))
    if isinstance(item.default, float):
        return _number(text, source)
    return Path(text).expanduser().absolute() if item.default is MISSING else text


_BOOLEANS = {
    **dict.fromkeys(("yes", "true", "1", "on"), True),
    **dict.fromkeys(("no", "false", "0", "off"), False),
}


def _boolean(value: Any, source: str) -> bool:
    if isinstance(value, bool):
        return value
    if (text := str(value).strip().lower()) not in _BOOLEANS:
        raise UsageError(f"{source}: {value!r} is neither yes nor no")
    return _BOOLEANS[text]


def _count(text: str, source: str, *, may_be_zero: bool) -> int:
    if not (text.isascii() and text.isdigit() and (int(text) or may_be_zero)):
        raise UsageError(f"{source}: {text!r} is not a positive integer{' or 0' * may_be_zero}")
    return int(text)


def _number(text: str, source: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= float(text) < math.inf:
            return float(text)
    raise UsageError(f"{source}: {text!r} is not a number of at least 0")


def _checked_table(value: Any, source: str) -> str:
    """The text of a table, `Standard_NC6=0.9; gpu=3.06`; UsageError for a value that is not a number."""
    numbers = value if isinstance(value, Mapping) else table_in(str(value))
    for name, number in numbers.items():
        if number is None or isinstance(number, (bool, dict, list)):
            raise UsageError(f"{source}: {name} needs a number", hint="write it as `Standard_NC6: 0.9`")
        _number(str(number), f"{source}: {name}")
    return "; ".join(f"{name}={number}" for name, number in numbers.items())


def table_in(text: str) -> dict[str, str | None]:
    """The values by name of a setting that is a table; None for a name without a value."""
    items = (item.partition("=") for item in text.split(";") if item.strip())
    return {name.strip(): value.strip() if sign else None for name, sign, value in items}
