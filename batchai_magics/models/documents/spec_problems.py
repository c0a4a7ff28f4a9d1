"""Converts pydantic's validation errors to problems with JSON paths and suggestions for unknown keys."""

from __future__ import annotations

import enum
import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from batchai_magics.errors import Problem, did_you_mean, join_path, quoted

UNKNOWN_KEY = "unknown key"
MAX_PROBLEMS = 30  # reported per spec, since suggestions take time
MAX_LIST_ITEMS, MAX_KEYS = 5_000, 1_000  # of an object
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_MESSAGES = {
    "missing": "this field is required",
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "int_parsing": "expected a whole number",
    "string_type": "expected text",
    "bool_type": "expected true or false",
    "list_type": "expected a list",
    "tuple_type": "expected a list",
    "model_type": "expected an object",
    "model_attributes_type": "expected an object",
    "dict_type": "expected an object",
    "greater_than_equal": "expected at least {ge}",
    "less_than_equal": "expected at most {le}",
}


def problems_of(error: ValidationError, model: type[BaseModel], prefix: str = "") -> list[Problem]:
    """The first 30 problems of a failed validation, in the order of the model's fields."""
    items = error.errors(include_url=False)[:MAX_PROBLEMS]
    return [_problem(dict(item), model, prefix) for item in items]


def unknown_key(path: str, owner: type[BaseModel] | None, key: str) -> Problem:
    """The problem of an unknown key, with a suggestion."""
    known = list(wire_fields(owner)) if owner else []
    return Problem(path, UNKNOWN_KEY, did_you_mean(key, known) or f"known here: {', '.join(known)}")


def _problem(item: dict[str, Any], model: type[BaseModel], prefix: str) -> Problem:
    location = tuple(item["loc"])
    path = prefix
    for part in location:
        path = join_path(path, part)
    kind = item["type"]
    if kind == "extra_forbidden":
        return unknown_key(path, model_at(model, location[:-1]), str(location[-1]))
    if kind == "value_error":
        return Problem(path, str(item["ctx"]["error"]))
    if kind == "enum":
        return Problem(path, f"{_describe(item['input'])} is not one of {item['ctx']['expected']}")
    message = _MESSAGES.get(kind, item["msg"]).format(**item.get("ctx", {}))
    is_silent = kind == "missing" or _may_hold_secret(model, location)
    shown = "" if is_silent else f", got {_describe(item['input'])}"
    is_bare = kind == "string_type" and isinstance(item["input"], (int, float))
    return Problem(path, f"{message}{shown}", "put it in quotes" if is_bare else "")


def surrogates_in(value: Any, path: str) -> Iterator[Problem]:
    """Problems of strings with lone surrogates, at any depth, which cannot be encoded as UTF-8."""
    if isinstance(value, str) and _SURROGATE.search(value):
        text = "this text holds a lone surrogate, which is not a character"
        yield Problem(path, text, r"such as \ud800")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from surrogates_in(str(key), join_path(path, quoted(key)))
            yield from surrogates_in(item, join_path(path, str(key)))
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from surrogates_in(item, join_path(path, number))


def _may_hold_secret(model: type[BaseModel], location: tuple[str | int, ...]) -> bool:
    """Whether the value at `location` may be or contain a secret, so that messages must not quote it."""
    inner: type[BaseModel] | None = model
    for part in (part for part in location if isinstance(part, str)):
        field = wire_fields(inner).get(part) if inner else None
        if field is None or holds(field, SecretStr):
            return True
        inner = inner_model(field)
    return inner is not None and _has_secret(inner)


def _has_secret(model: type[BaseModel]) -> bool:
    fields = wire_fields(model).values()
    return any(holds(field, SecretStr) for field in fields) or any(
        _has_secret(inner) for inner in map(inner_model, fields) if inner
    )


def _describe(value: Any) -> str:
    names = {dict: "an object", list: "a list", type(None): "null", bool: str(value).lower()}
    return names.get(type(value)) or quoted(value)


def wire_fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The model's fields by JSON key: `nodeCount`."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def inner_model(field: FieldInfo) -> type[BaseModel] | None:
    """The model of the field's object or list items, if any."""
    return next((kind for kind in _classes(field.annotation) if issubclass(kind, BaseModel)), None)


def inner_enum(field: FieldInfo) -> type[enum.Enum] | None:
    """The enum of the field, if any."""
    return next((kind for kind in _classes(field.annotation) if issubclass(kind, enum.Enum)), None)


def holds(field: FieldInfo, kind: type) -> bool:
    """Whether the field's value can be a `kind`: a SecretStr, a number."""
    return any(issubclass(inner, kind) for inner in _classes(field.annotation))


def is_list(field: FieldInfo) -> bool:
    """Whether the field's value is a list, or null."""
    annotation = field.annotation
    kinds = (annotation, *typing.get_args(annotation))
    return any(typing.get_origin(kind) in (list, tuple) for kind in kinds)


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
