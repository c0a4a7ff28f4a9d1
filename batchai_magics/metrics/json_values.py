"""Converts log values to JSON."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def json_value(value: Any) -> Any:
    """Convert a value for JSON at any depth: tuples to lists, enums to values, records to objects.

    None becomes null. A printed number that is not finite becomes "NaN", "Infinity" or "-Infinity".
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
    """The items of a record or mapping; None for any other value."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return value if isinstance(value, Mapping) else None


def _number(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
