"""Numbers of logs as JSON can have them."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def json_value(value: Any) -> Any:
    """The value for JSON, at any depth: keys as text, tuples as lists, enums and records by their values.

    None stays null, "there is no number"; one that was printed and is not finite is "NaN", "Infinity" or
    "-Infinity".
    """
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float):
        return _number(value)
    members = _members(value)
    if members is not None:
        return {str(key): json_value(item) for key, item in members.items()}
    return [json_value(item) for item in value] if isinstance(value, (list, tuple)) else value


def _members(value: Any) -> Mapping[Any, Any] | None:
    """What a record or a mapping holds; None for anything else."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return value if isinstance(value, Mapping) else None


def _number(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
