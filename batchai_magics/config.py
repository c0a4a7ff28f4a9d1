"""Every setting, its default and its environment variable; one file, read once.

The file is `config.yaml` in the platform's configuration folder (`BATCHAI_CONFIG` names another); the
environment wins.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from batchai_magics.errors import UsageError, did_you_mean

APP = "batchai"
PREFIX = "BATCHAI_"


def _default_home() -> Path:
    import platformdirs

    return Path(platformdirs.user_data_dir(APP, appauthor=False))


DEFAULT_ACCOUNT = "local"  # the storage account that is always there and needs no key


@dataclass(frozen=True)
class Settings:
    """The settings. Each is read from `BATCHAI_<NAME>` or from the file under its own name."""

    backend: str = "local"  # where jobs run: local
    home: Path = field(default_factory=_default_home)  # the local backend's state, shares and logs
    subscription: str = "00000000-0000-0000-0000-000000000000"  # the subscription in every id
    resource_group: str = "batchai"  # the resource group in every id
    workspace: str = "default"  # the workspace used when none is named
    experiment: str = "default"  # the experiment used when none is named
    cluster: str = "default"  # the cluster used when none is named
    cluster_nodes: int = 2  # nodes of the default cluster, when it has to be made
    cluster_vm_size: str = "Standard_D2"  # VM size of the default cluster
    location: str = "local"  # location of a workspace that has to be made
    share: str = "batchaishare"  # the share that holds scripts and logs
    share_mount: str = "autoafs"  # where that share is mounted, below the mount root
    storage_account: str = ""  # storage account of mounts, where a line or a file names none
    storage_key: str = field(default="", repr=False)  # its key
    core_quota: int = 1000  # cores that all clusters of the local backend may have together
    idle_s: int = 300  # seconds that a node of an auto-scale cluster may be idle
    container_command: str = ""  # what runs containers, such as `podman --runtime runc`; found when empty
    ui: str = "auto"  # how jobs are shown: auto, widget, html, text


# Setting → the only values it takes.
CHOICES = {"backend": ("local",), "ui": ("auto", "widget", "html", "text")}


def load(env: Mapping[str, str] | None = None, *, path: Path | None = None) -> Settings:
    """The settings of this process: defaults, then the file, then the environment.

    Raises UsageError that names the setting, and the variable or the file that it came from.
    """
    given = os.environ if env is None else env
    file = path or _file(given)
    told = _read(file)
    values: dict[str, Any] = {}
    for item in fields(Settings):
        if told.get(item.name) is not None:
            values[item.name] = _typed(item, told[item.name], f"setting {item.name} in {file}")
        variable = PREFIX + item.name.upper()
        if given.get(variable):
            values[item.name] = _typed(item, given[variable], f"setting {item.name} ({variable})")
    return Settings(**values)


def save(values: Mapping[str, Any], env: Mapping[str, str] | None = None) -> Path:
    """Writes settings to the file that `load` reads, beside what is there, and gives its path.

    Raises UsageError, before anything is written, for a file that cannot be read.
    """
    file = _file(os.environ if env is None else env)
    _read(file)
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


def _read(file: Path) -> dict[str, Any]:
    data = _yaml(file) if file.exists() else {}
    known = [item.name for item in fields(Settings)]
    listed = f"known settings: {', '.join(known)}"
    if not isinstance(data, dict):
        raise UsageError(f"{file} holds no settings", hint=f"write lines such as `workspace: mine`; {listed}")
    for name in data:
        if name not in known:
            raise UsageError(
                f"{file}: unknown setting {name!r}", hint=did_you_mean(str(name), known) or listed
            )
    return data


def _yaml(file: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is no valid YAML: {error}") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None


def _typed(item: Field[Any], value: Any, what: str) -> Any:
    """The value as the setting's type, or UsageError that begins with `what`."""
    if isinstance(value, (dict, list, bool)):
        raise UsageError(f"{what}: expected one value, got {value!r}")
    text = str(value).strip()
    if item.name in CHOICES:
        return _choice(text, CHOICES[item.name], what)
    if isinstance(item.default, int):
        return _count(text, what)
    return Path(text).expanduser().absolute() if item.default is MISSING else text


def _count(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise UsageError(f"{what}: {text!r} is no whole number of at least 1")
    return int(text)


def _choice(text: str, choices: tuple[str, ...], what: str) -> str:
    if text.lower() not in choices:
        hint = did_you_mean(text, choices) or f"one of {', '.join(choices)}"
        raise UsageError(f"{what}: there is no {text!r}", hint=hint)
    return text.lower()
