"""Every setting, its default and its environment variable; one file, read once.

The file is `config.yaml` in the platform's configuration folder (`BATCHAI_CONFIG` names another); the
environment wins. What only one backend needs stands in the file below that backend's name.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from batchai_magics.config.given import PREFIX, in_env, in_file, value_of, variable
from batchai_magics.errors import UsageError, did_you_mean

__all__ = [
    "APP",
    "DEFAULT_ACCOUNT",
    "Backends",
    "Settings",
    "config_path",
    "general",
    "load",
    "save",
    "setting",
    "variable",
]

APP = "batchai"
_LARGEST = 1 << 20  # bytes of the file
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
        values.update(value_of(item, [in_file(file, written, item.name), in_env(given, item.name)], choices))
    settings = Settings(**values)
    names = {settings.backend, *(name for name, value in written.items() if isinstance(value, dict))}
    sections = {
        name: _own(kind, name, _Origin(file, written, given))
        for name in (*names, *backends.ours)
        if (kind := backends.own_settings(name))
    }
    return replace(settings, sections=sections)


def general() -> tuple[Field[Any], ...]:
    """The general settings, each a field with its default and its `help`."""
    return tuple(item for item in fields(Settings) if item.name != "sections")


@dataclass(frozen=True)
class _Origin:
    """Where settings come from: a file, as it was read, and the environment."""

    file: Path
    written: Mapping[str, Any]
    env: Mapping[str, str]


def _own(kind: type[Any], backend: str, origin: _Origin) -> Any:
    """A backend's own settings: from its section and its variables, some also from among the general ones."""
    section = origin.written.get(backend) or {}
    also_general = getattr(kind, "ALSO_GENERAL", ())
    values: dict[str, Any] = {}
    for item in fields(kind):
        from_file = [in_file(origin.file, section, item.name, backend)]
        from_env = [in_env(origin.env, item.name, backend)]
        if item.name in also_general:
            from_file.insert(0, in_file(origin.file, origin.written, item.name))
            from_env.insert(0, in_env(origin.env, item.name))
        values.update(value_of(item, [*from_file, *from_env], {}))
    return kind(**values)


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
    if not isinstance(data, dict):
        hint = f"write lines such as `workspace: mine`; {_known_settings()}"
        raise UsageError(f"{file} holds no settings", hint=hint)
    for name, value in data.items():
        if name in _names(general()):
            continue
        if isinstance(value, dict) and name in backends:
            _check_names(value, backends.own_settings(name), f"{file}: {name}")
        else:
            _check_general(name, backends, file)
    return data


def _check_general(name: object, backends: Backends, file: Path) -> None:
    """Raises UsageError for what is no setting of a backend's that may stand among the general ones."""
    also_general = list(_also_general(backends))
    if name not in also_general:
        hint = did_you_mean(str(name), [*_names(general()), *also_general, *backends]) or _known_settings()
        raise UsageError(f"{file}: unknown setting {name!r}", hint=hint)


def _known_settings() -> str:
    return f"known settings: {', '.join(_names(general()))}"


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
        return yaml.safe_load(_text(file)) or {}
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, TypeError) as error:
        raise UsageError(f"{file} is no valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise UsageError(f"{file} is no valid YAML: it is nested too deeply, or in itself") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None


def _text(file: Path) -> str:
    """The text of a file; nobody waits for who writes to a pipe, and a device may have no end."""
    descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as stream:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            raise UsageError(f"{file} is a named pipe", hint="Settings are read from a file.")
        data = stream.read(_LARGEST + 1) or b""
    if len(data) > _LARGEST:
        raise UsageError(f"{file} is larger than {_LARGEST >> 20} MiB: it holds no settings")
    return data.decode("utf-8")
