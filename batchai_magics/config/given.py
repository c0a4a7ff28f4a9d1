"""A setting's value as the file or the environment gives it, and as the setting's type has it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, dataclass
from pathlib import Path
from typing import Any

from batchai_magics.errors import UsageError, did_you_mean

PREFIX = "BATCHAI_"


@dataclass(frozen=True)
class Given:
    """A value as it was given, and where."""

    value: Any
    what: str


def in_file(file: Path, written: Mapping[str, Any], name: str, backend: str = "") -> Given:
    """What the file says of a setting."""
    full_name = f"{backend}.{name}" if backend else name
    return Given(written.get(name), f"setting {full_name} in {file}")


def in_env(env: Mapping[str, str], name: str, backend: str = "") -> Given:
    """What the environment says of a setting; an empty variable says nothing."""
    full_name = f"{backend}.{name}" if backend else name
    named = variable(name, backend)
    return Given(env.get(named) or None, f"setting {full_name} ({named})")


def variable(name: str, backend: str = "") -> str:
    """The environment variable of a setting: a general one, or a backend's own."""
    return PREFIX + (f"{backend}_{name}" if backend else name).upper().replace("-", "_")


def value_of(
    item: Field[Any], given: Collection[Given], choices: Mapping[str, Collection[str]]
) -> dict[str, Any]:
    """The setting by its name, as the last of those that were given has it; all are checked."""
    there = [each for each in given if each.value is not None]
    typed = [_typed(item, each.value, each.what, choices.get(item.name)) for each in there]
    return {item.name: typed[-1]} if typed else {}


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
