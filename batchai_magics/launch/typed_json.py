"""Converts named tuples and enums to JSON types and back, checking the type of each value.

It is copied to nodes with the Plan and imports as little of the standard library.
"""

import enum
from collections.abc import Mapping
from typing import Any

from batchai_magics.launch.references import Reference, Template


class FormError(ValueError):
    """A value has the wrong type."""


def to_json_types(value: Any) -> Any:
    """The JSON types of a value: objects for named tuples, lists for templates, values for enums."""
    if isinstance(value, Template):
        return [to_json_types(part) for part in value.parts]
    if hasattr(value, "_fields"):
        return {name: to_json_types(getattr(value, name)) for name in value._fields}
    if isinstance(value, tuple):
        return [to_json_types(item) for item in value]
    if isinstance(value, Mapping):
        return {name: to_json_types(item) for name, item in value.items()}
    return value.value if isinstance(value, enum.Enum) else value


def from_json_types(kind: Any, value: Any, where: str) -> Any:
    """Convert JSON types to a value of this type; FormError names the field with a wrong type."""
    if hasattr(kind, "_fields"):
        return _record(kind, value, where)
    if hasattr(kind, "__args__"):
        return _generic(kind, value, where)
    if issubclass(kind, enum.Enum):
        return _member(kind, value, where)
    if kind is str and isinstance(value, list):
        return _template(value, where)
    return float(_checked((int, float), value, where)) if kind is float else _checked(kind, value, where)


def _generic(kind: Any, value: Any, where: str) -> Any:
    """Convert a `tuple[kind, …]`, `kind | None`, or a mapping of texts."""
    inner = kind.__args__[0]
    if type(None) in kind.__args__:
        return None if value is None else from_json_types(inner, value, where)
    if kind.__origin__ is tuple:
        return tuple(from_json_types(inner, item, where) for item in _checked(list, value, where))
    return {name: from_json_types(str, text, where) for name, text in _checked(dict, value, where).items()}


def _template(parts: list[Any], where: str) -> Template:
    """A template from its parts."""
    return Template(
        part if isinstance(part, str) else from_json_types(Reference, part, where) for part in parts
    )


def _record(kind: Any, value: Any, where: str) -> Any:
    body = _checked(dict, value, where)
    if body.keys() != set(kind._fields):
        odd = ", ".join(sorted(body.keys() ^ set(kind._fields)))
        raise FormError(f"{where} has not the fields of a {kind.__name__}: {odd}")
    types = kind.__annotations__
    return kind(*[from_json_types(types[name], body[name], f"{where}.{name}") for name in kind._fields])


def _member(kind: type[enum.Enum], value: Any, where: str) -> enum.Enum:
    if value not in [member.value for member in kind]:
        raise FormError(f"{where}: {value!r} is not a valid {kind.__qualname__}")
    return kind(value)


def _checked(kind: Any, value: Any, where: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, kind):
        raise FormError(f"{where} is {type(value).__name__}, which it must not be")
    return value
