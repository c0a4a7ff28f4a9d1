"""What a model looks like on the wire: its keys, and the models and enums behind them."""

from __future__ import annotations

import enum
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo


def wire_fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The model's fields by the key that JSON has for them: `nodeCount`."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def inner_model(field: FieldInfo) -> type[BaseModel] | None:
    """The model of the object, or of the objects in the list, that the field holds."""
    return next((kind for kind in _classes(field.annotation) if issubclass(kind, BaseModel)), None)


def inner_enum(field: FieldInfo) -> type[enum.Enum] | None:
    """The enum that the field's text is one of."""
    return next((kind for kind in _classes(field.annotation) if issubclass(kind, enum.Enum)), None)


def holds(field: FieldInfo, kind: type) -> bool:
    """Whether the field's value can be a `kind`: a SecretStr, a number."""
    return any(issubclass(inner, kind) for inner in _classes(field.annotation))


def model_at(model: type[BaseModel], location: tuple[str | int, ...]) -> type[BaseModel] | None:
    """The model of the object at `location` below `model`."""
    for part in location:
        if isinstance(part, int):
            continue
        field = wire_fields(model).get(part)
        inner = inner_model(field) if field else None
        if inner is None:
            return None
        model = inner
    return model


def _classes(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _classes(argument)
