"""Every setting, its default and its environment variable; one file, read once.

The file is `config.yaml` in the platform's configuration folder (`BATCHAI_CONFIG` names another); the
environment wins. What only one backend needs stands in the file below that backend's name.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from batchai_magics.errors import UsageError, did_you_mean

APP = "batchai"
PREFIX = "BATCHAI_"
DEFAULT_ACCOUNT = "local"  # the storage account that is always there and needs no key

Value = TypeVar("Value")
Own = TypeVar("Own")


def setting(default: Value, help: str, *, is_secret: bool = False) -> Value:
    """A setting with its default and, for people, what it is."""
    made: Value = field(default=default, repr=not is_secret, metadata={"help": help})
    return made


@dataclass(frozen=True)
class Settings:
    """The general settings. Each is read from `BATCHAI_<NAME>` or from the file under its own name."""

    backend: str = setting("local", "where jobs run")
    subscription: str = setting("00000000-0000-0000-0000-000000000000", "the subscription in every id")
    resource_group: str = setting("batchai", "the resource group in every id")
    workspace: str = setting("default", "the workspace used when none is named")
    experiment: str = setting("default", "the experiment used when none is named")
    cluster: str = setting("default", "the cluster used when none is named")
    cluster_nodes: int = setting(2, "nodes of the default cluster, when it has to be made")
    cluster_vm_size: str = setting("Standard_D2", "VM size of the default cluster")
    location: str = setting("local", "location of a workspace that has to be made")
    share: str = setting("batchaishare", "the share that holds scripts and logs")
    share_mount: str = setting("autoafs", "where that share is mounted, below the mount root")
    storage_account: str = setting("", "storage account of mounts, where a line or a file names none")
    storage_key: str = setting("", "its key", is_secret=True)
    ui: str = setting("auto", "how jobs are shown: auto, widget, html, text")
    sections: Mapping[str, Any] = field(default_factory=dict)  # each backend's own settings, by its name

    def own(self, kind: type[Own]) -> Own:
        """The settings of the backend whose settings are of this type; the defaults where none were given."""
        given = next((section for section in self.sections.values() if isinstance(section, kind)), None)
        return kind() if given is None else given


class Backends(Collection[str], Protocol):
    """What is to be known of the backends here: their names, and the settings of each."""

    @property
    def ours(self) -> Collection[str]:
        """Those whose settings are always read, as it costs nothing."""

    def own_settings(self, name: str) -> type[Any] | None:
        """The frozen dataclass of a backend's own settings, all with defaults; None if it has none.

        Those that its `ALSO_GENERAL` names may also stand among the general ones, without the backend's name.
        """


CHOICES = {"ui": ("auto", "widget", "html", "text")}  # setting → the only values it takes


def load(env: Mapping[str, str] | None = None, *, path: Path | None = None, backends: Backends) -> Settings:
    """The settings of this process: defaults, then the file, then the environment.

    Raises UsageError that names the setting, and the variable or the file that it came from.
    """
    given = os.environ if env is None else env
    file = path or _file(given)
    written = _read(file, backends)
    choices = {**CHOICES, "backend": backends}
    values: dict[str, Any] = {}
    for item in general():
        values.update(_value(item, [_in_file(file, written, item.name), _in_env(given, item.name)], choices))
    settings = Settings(**values)
    names = {settings.backend, *(name for name, value in written.items() if isinstance(value, dict))}
    sections = {
        name: _own(kind, name, _Told(file, written, given))
        for name in (*names, *backends.ours)
        if (kind := backends.own_settings(name))
    }
    return replace(settings, sections=sections)


def general() -> tuple[Field[Any], ...]:
    """The general settings, each a field with its default and its `help`."""
    return tuple(item for item in fields(Settings) if item.name != "sections")


def variable(name: str, backend: str = "") -> str:
    """The environment variable of a setting: a general one, or a backend's own."""
    return PREFIX + (f"{backend}_{name}" if backend else name).upper().replace("-", "_")


@dataclass(frozen=True)
class _Told:
    """Where settings come from: a file, as it was read, and the environment."""

    file: Path
    written: Mapping[str, Any]
    env: Mapping[str, str]


@dataclass(frozen=True)
class _Given:
    """A value as it was given, and where."""

    value: Any
    what: str


def _in_file(file: Path, written: Mapping[str, Any], name: str, backend: str = "") -> _Given:
    full_name = f"{backend}.{name}" if backend else name
    return _Given(written.get(name), f"setting {full_name} in {file}")


def _in_env(env: Mapping[str, str], name: str, backend: str = "") -> _Given:
    full_name = f"{backend}.{name}" if backend else name
    named = variable(name, backend)
    return _Given(env.get(named) or None, f"setting {full_name} ({named})")


def _own(kind: type[Any], backend: str, told: _Told) -> Any:
    """A backend's own settings: from its section and its variables, some also from among the general ones."""
    section = told.written.get(backend) or {}
    also_general = getattr(kind, "ALSO_GENERAL", ())
    values: dict[str, Any] = {}
    for item in fields(kind):
        in_file = [_in_file(told.file, section, item.name, backend)]
        in_env = [_in_env(told.env, item.name, backend)]
        if item.name in also_general:
            in_file.insert(0, _in_file(told.file, told.written, item.name))
            in_env.insert(0, _in_env(told.env, item.name))
        values.update(_value(item, [*in_file, *in_env], {}))
    return kind(**values)


def _value(
    item: Field[Any], given: Collection[_Given], choices: Mapping[str, Collection[str]]
) -> dict[str, Any]:
    """The setting by its name, as the last of those that were given has it; all are checked."""
    there = [each for each in given if each.value is not None]
    typed = [_typed(item, each.value, each.what, choices.get(item.name)) for each in there]
    return {item.name: typed[-1]} if typed else {}


def save(values: Mapping[str, Any], env: Mapping[str, str] | None = None, *, backends: Backends) -> Path:
    """Writes settings to the file that `load` reads, beside what is there, and gives its path.

    Raises UsageError, before anything is written, for a file that cannot be read.
    """
    file = _file(os.environ if env is None else env)
    _read(file, backends)
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    kept = [line for line in lines if line.partition(":")[0].strip() not in values]
    added = [f"{name}: {json.dumps(value)}" for name, value in values.items()]
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.part")
    part.touch(mode=0o600)
    part.write_text("\n".join([*kept, *added]) + "\n", encoding="utf-8")
    return part.replace(file)


def _file(env: Mapping[str, str]) -> Path:
    named = env.get(PREFIX + "CONFIG")
    return Path(named).expanduser() if named else config_path()


def config_path() -> Path:
    """Where the configuration file is looked for."""
    import platformdirs

    return Path(platformdirs.user_config_dir(APP, appauthor=False)) / "config.yaml"


def _read(file: Path, backends: Backends) -> dict[str, Any]:
    """What the file says: general settings, and a mapping for each backend that has some of its own."""
    data = _yaml(file) if file.exists() else {}
    listed = f"known settings: {', '.join(_names(general()))}"
    if not isinstance(data, dict):
        raise UsageError(f"{file} holds no settings", hint=f"write lines such as `workspace: mine`; {listed}")
    for name, value in data.items():
        if name in _names(general()):
            continue
        if isinstance(value, dict) and name in backends:
            _check_names(value, backends.own_settings(name), f"{file}: {name}")
        elif name not in set(_also_general(backends)):
            known = [*_names(general()), *_also_general(backends), *backends]
            hint = did_you_mean(str(name), known) or listed
            raise UsageError(f"{file}: unknown setting {name!r}", hint=hint)
    return data


def _also_general(backends: Backends) -> Iterator[str]:
    for name in backends:
        yield from getattr(backends.own_settings(name), "ALSO_GENERAL", ())


def _check_names(section: Mapping[str, Any], kind: type[Any] | None, what: str) -> None:
    known = _names(fields(kind)) if kind else []
    for name in section:
        if name not in known:
            hint = did_you_mean(str(name), known) or f"known settings: {', '.join(known) or 'none'}"
            raise UsageError(f"{what}: unknown setting {name!r}", hint=hint)


def _names(items: Collection[Field[Any]]) -> list[str]:
    return [item.name for item in items]


def _yaml(file: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is no valid YAML: {error}") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None


def _typed(item: Field[Any], value: Any, what: str, choices: Collection[str] | None) -> Any:
    """The value as the setting's type, or UsageError that begins with `what`."""
    if isinstance(value, (dict, list, bool)):
        raise UsageError(f"{what}: expected one value, got {value!r}")
    text = str(value).strip()
    if choices is not None:
        return _choice(text, choices, what)
    if isinstance(item.default, int):
        return _count(text, what)
    if isinstance(item.default, float):
        return _number(text, what)
    return Path(text).expanduser().absolute() if item.default is MISSING else text


def _count(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise UsageError(f"{what}: {text!r} is no whole number of at least 1")
    return int(text)


def _number(text: str, what: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= float(text) < math.inf:
            return float(text)
    raise UsageError(f"{what}: {text!r} is no number of at least 0")


def _choice(text: str, choices: Collection[str], what: str) -> str:
    if text.lower() not in choices:
        hint = did_you_mean(text, choices) or f"one of {', '.join(choices)}"
        raise UsageError(f"{what}: there is no {text!r}", hint=hint)
    return text.lower()
