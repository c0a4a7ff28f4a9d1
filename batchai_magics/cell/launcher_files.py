"""What launchers read besides their options: lists of hosts, and the settings of `accelerate config`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from batchai_magics.errors import UsageError

_SLOTS = re.compile(r"(?:\s+slots=|:)(\d+)\b")
# Keys of Accelerate's settings that have no effect on a job.
_NO_EFFECT = ("compute_environment", "distributed_type", "downcast_bf16", "machine_rank", "rdzv_backend")
_KINDS = {  # of `distributed_type`, as the switch that chooses them
    "DEEPSPEED": "use_deepspeed",
    "FSDP": "use_fsdp",
    "MEGATRON_LM": "use_megatron_lm",
    "MULTI_CPU": "multi_cpu",
    "TPU": "tpu",
    "XLA": "tpu",
}
_PARTS = {"fsdp_config": "fsdp_", "dynamo_config": "dynamo_", "deepspeed_config": ""}
_TO_SCRIPT = "pass these settings to Accelerator() in the script"


def listed_hosts(text: str) -> dict[str, int]:
    """The slots of each host of mpirun's `a:2,b:2`; 0: not said.

    Raises:
        ValueError: The slots are no number.
    """
    hosts: dict[str, int] = {}
    for item in text.split(","):
        name, _, slots = item.strip().partition(":")
        hosts[name] = hosts.get(name, 0) + int(slots or 0)
    return hosts


def chosen_slots(text: str) -> dict[str, int]:
    """How many slots of each host deepspeed's `a@b:0,2` chooses; 0: all of them."""
    hosts: dict[str, set[str]] = {}
    for item in text.split("@"):
        name, _, slots = item.strip().partition(":")
        hosts.setdefault(name, set()).update(filter(None, slots.split(",")))
    return {name: len(slots) for name, slots in hosts.items()}


def hosts_in_file(path: Path) -> dict[str, int]:
    """The slots of each host of a file such as `worker-1 slots=4`; 0: not said.

    Raises:
        OSError: It cannot be read.
    """
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return {re.split(r"[\s:]", line, maxsplit=1)[0]: _slots(line) for line in lines if line}


def _slots(line: str) -> int:
    found = _SLOTS.search(line)
    return int(found[1]) if found else 0


def accelerate_config(given: str, folder: Path, *, is_default: bool = True) -> Path | None:
    """The file of `--config_file`, or else the one that `accelerate config` has written; None without one."""
    if given or not is_default:
        return folder / Path(given).expanduser() if given else None
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = Path(os.environ.get("HF_HOME") or Path(cache, "huggingface")).expanduser() / "accelerate"
    names = (home / f"default_config.{kind}" for kind in ("yaml", "json"))
    return next((path for path in names if path.is_file()), None)


def config_options(path: Path) -> list[str]:
    """The settings of `accelerate config` as options of `accelerate launch`.

    Raises:
        UsageError: The file is not there, or is none of Accelerate's.
    """
    settings = _settings(path)
    options = []
    if switch := _KINDS.get(str(settings.get("distributed_type", ""))):
        options.append(f"--{switch}")
    for name, value in settings.items():
        if name in _PARTS and isinstance(value, Mapping):
            options += _options(_PARTS[name], value)
            if name == "deepspeed_config":
                options.append(f"--deepspeed_fields_from_accelerate_config={','.join(value).lower()}")
        elif isinstance(value, (Mapping, list)):
            if value:
                raise UsageError(f"{path}: {name} cannot be translated", hint=_TO_SCRIPT)
        elif name not in _NO_EFFECT and not (name == "gpu_ids" and value == "all"):
            options += _options("", {name: value})
    return options


def _settings(path: Path) -> Mapping[str, Any]:
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        settings = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except OSError as error:
        raise UsageError(f"accelerate launch: {path}: {error.strerror}") from None
    except (ValueError, yaml.YAMLError):
        raise UsageError(f"accelerate launch: {path} is not valid YAML") from None
    if not isinstance(settings, Mapping):
        raise UsageError(f"accelerate launch: {path} has no settings of Accelerate")
    return settings


def _options(prefix: str, values: Mapping[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        name = key if key.startswith(prefix) else prefix + key
        is_switch = isinstance(value, bool) and not name.startswith(("fsdp_", "zero3_"))
        if value is None or (is_switch and not value):
            continue
        yield (
            f"--{name}"
            if is_switch
            else f"--{name}={str(value).lower() if value in (True, False) else value}"
        )
