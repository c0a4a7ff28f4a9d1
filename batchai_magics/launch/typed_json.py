"""Named tuples, enums and what they hold as JSON's own types, and back, each value checked by its type.

Of the standard library it imports as little as the Plan, which travels with it to wherever nodes are.
"""

import enum
from collections.abc import Mapping
from typing import Any

from batchai_magics.launch.references import Reference, Template


class FormError(ValueError):
    """A value is not of its type."""


def plain(value: Any) -> Any:
    """JSON's own types for a value: an object for a named tuple, a list for a template, an enum's value."""
    if isinstance(value, Template):
        return [plain(part) for part in value.parts]
    if hasattr(value, "_fields"):
        return {name: plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return value.value if isinstance(value, enum.Enum) else value


def typed(kind: Any, value: Any, where: str) -> Any:
    """The value of a type that JSON's own types stand for; a FormError names the field that is of another."""
    if hasattr(kind, "_fields"):
        return _record(kind, value, where)
    if hasattr(kind, "__args__"):
        return _made_of(kind, value, where)
    if issubclass(kind, enum.Enum):
        return _member(kind, value, where)
    if kind is str and isinstance(value, list):
        return _template(value, where)
    return float(_checked((int, float), value, where)) if kind is float else _checked(kind, value, where)


def _made_of(kind: Any, value: Any, where: str) -> Any:
    """The same for `tuple[kind, …]`, `kind | None`, and mappings of texts."""
    inner = kind.__args__[0]
    if type(None) in kind.__args__:
        return None if value is None else typed(inner, value, where)
    if kind.__origin__ is tuple:
        return tuple(typed(inner, item, where) for item in _checked(list, value, where))
    return {name: typed(str, text, where) for name, text in _checked(dict, value, where).items()}


def _template(parts: list[Any], where: str) -> Template:
    """A text with references: texts and references in their order."""
    return Template(part if isinstance(part, str) else typed(Reference, part, where) for part in parts)


def _record(kind: Any, value: Any, where: str) -> Any:
    body = _checked(dict, value, where)
    if body.keys() != set(kind._fields):
        odd = ", ".join(sorted(body.keys() ^ set(kind._fields)))
        raise FormError(f"{where} has not the fields of a {kind.__name__}: {odd}")
    types = kind.__annotations__
    return kind(*[typed(types[name], body[name], f"{where}.{name}") for name in kind._fields])


def _member(kind: type[enum.Enum], value: Any, where: str) -> enum.Enum:
    if value not in [member.value for member in kind]:
        raise FormError(f"{where}: {value!r} is not a valid {kind.__qualname__}")
    return kind(value)


def _checked(kind: Any, value: Any, where: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, kind):
        raise FormError(f"{where} is {type(value).__name__}, which it must not be")
    return value
