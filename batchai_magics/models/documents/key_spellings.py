"""Converts legacy or differently cased keys of specs to the keys of the 2018-05-01 API.

Keys match case-insensitively, as in the old clients; LEGACY_KEYS lists renamed and dropped ones. Values keep
their case, except those of enums.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from batchai_magics.errors import Problem, did_you_mean, join_path, quoted
from batchai_magics.models.backend_options import option_key, option_name
from batchai_magics.models.documents.spec_problems import (
    MAX_KEYS,
    MAX_LIST_ITEMS,
    MAX_PROBLEMS,
    UNKNOWN_KEY,
    holds,
    inner_enum,
    inner_model,
    is_list,
    unknown_key,
    wire_fields,
)


@dataclass(frozen=True)
class LegacyKey:
    """The replacement of a legacy key: `to` is its current key (empty: dropped), `convert` its value."""

    to: str = ""
    convert: Callable[[Any], Any] = str


def _priority(value: Any) -> str:
    """Converts the 2017 preview's number from -1000 to 1000 to low, normal or high."""
    if isinstance(value, bool) or not isinstance(value, int) or not -1000 <= value <= 1000:
        raise ValueError(
            "expected a whole number from -1000 to 1000, or schedulingPriority: low, normal or high"
        )
    return "low" if value < 0 else "high" if value > 0 else "normal"


# Keys allowed beside `properties`, as in job files, ARM templates and service responses.
ENVELOPE = (
    "$schema",
    "apiVersion",
    "comments",
    "dependsOn",
    "etag",
    "id",
    "location",
    "name",
    "resourceGroup",
    "tags",
    "type",
)

_CREDENTIALS = {"credentialsinfo": LegacyKey("credentials", lambda value: value)}  # of the 2017 schema
_RESPONSE_FIELDS = dict.fromkeys(
    ("creationtime", "errors", "provisioningstate", "provisioningstatetransitiontime"), LegacyKey()
)

# Model → lower-case legacy key → replacement. Keys that differ only in case need no entry.
LEGACY_KEYS: dict[str, dict[str, LegacyKey]] = {
    "JobSpec": {
        "priority": LegacyKey("schedulingPriority", _priority),
        "experimentname": LegacyKey(),
        "tooltype": LegacyKey(),
        "joboutputdirectorypathsegment": LegacyKey(),
        "executionstate": LegacyKey(),
        "executionstatetransitiontime": LegacyKey(),
        "executioninfo": LegacyKey(),
        "batchairanks": LegacyKey(),
        "batchaiwaiting": LegacyKey(),
        "batchaiattempts": LegacyKey(),
        **_RESPONSE_FIELDS,
    },
    "ClusterSpec": {
        "allocationstate": LegacyKey(),
        "allocationstatetransitiontime": LegacyKey(),
        "currentnodecount": LegacyKey(),
        "nodestatecounts": LegacyKey(),
        **_RESPONSE_FIELDS,
    },
    "OutputDirectory": {"type": LegacyKey()},
    "AzureFileShare": _CREDENTIALS,
    "AzureBlobFileSystem": _CREDENTIALS,
    "ResourceRef": {"resourcegroup": LegacyKey()},
}

_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_SWITCHES = {"true": True, "false": False}
_TEMPLATE = re.compile(
    r"\[\s*(?:parameters|variables|concat|resourceId|reference|resourceGroup|subscription|copyIndex|deployment"
    r"|listKeys|uniqueString|format|if|int|string|toLower|toUpper)\s*\(.*\]",
    re.IGNORECASE | re.DOTALL,
)


class UnknownKeys(enum.Enum):
    """What becomes of the unknown keys of an object."""

    KEEP = "keep"  # for a later validation
    REPORT = "report"  # removed and reported
    IGNORE = "ignore"  # the same, and quoted numbers and booleans, common in files, are converted


class KeyConverter:
    """Walks data along its models and converts keys to canonical ones.

    Attributes:
        problems: The problems of known keys, with their paths.
        unknown: The first 30 unknown keys that are not kept, with suggestions.
        unknown_count: The number of all unknown keys that are not kept.
    """

    def __init__(self, treatment: UnknownKeys) -> None:
        self._treatment = treatment
        self.problems: list[Problem] = []
        self.unknown: list[Problem] = []
        self.unknown_count = 0

    def object(self, data: Mapping[Any, Any], model: type[BaseModel], path: str) -> dict[str, Any]:
        """Converts an object of a model, at any depth; `path` is the object's.

        One with too many keys becomes empty; unless unknown keys are reported, a legacy key whose value
        cannot be converted is kept.
        """
        if len(data) > MAX_KEYS:
            self.problems.append(Problem(path, f"expected at most {MAX_KEYS:,} keys, got {len(data):,}"))
            return {}
        fields = wire_fields(model)
        names = {name.lower(): name for name in fields}
        legacy_keys = LEGACY_KEYS.get(model.__name__, {})
        is_open = model.model_config.get("extra") == "allow"  # to native options
        legacy_values: dict[str, Any] = {}
        body: dict[str, Any] = {}
        for spelling, value in ((str(key), value) for key, value in data.items()):
            if key := names.get(spelling.lower()):
                converted = self._value(value, fields[key], join_path(path, key))
                self._add(body, spelling, key, converted, path=path)
            elif is_open and spelling.lower() not in legacy_keys and (name := option_name(spelling)):
                self._add(body, spelling, option_key(name), value, path=path)
            elif spelling.lower() in legacy_keys:
                legacy_values[spelling] = value
            elif self._treatment is UnknownKeys.KEEP:
                body[spelling] = value
            else:
                self.unknown_count += 1
                if len(self.unknown) < MAX_PROBLEMS:
                    self.unknown.append(unknown_key(join_path(path, spelling), model, spelling))
        self._add_legacy(body, legacy_values, model, path=path)
        return body

    def _add(self, body: dict[str, Any], spelling: str, key: str, value: Any, *, path: str) -> None:
        if key in body:
            self.problems.append(Problem(join_path(path, spelling), f"this key is there twice: {key}"))
        elif value is not None:  # null means missing, as in the service
            body[key] = value

    def _add_legacy(
        self, body: dict[str, Any], legacy_values: Mapping[str, Any], model: type[BaseModel], *, path: str
    ) -> None:
        """Adds the values of legacy keys to `body`, unless the current key is there too."""
        fields = wire_fields(model)
        for key, value in legacy_values.items():
            entry = LEGACY_KEYS[model.__name__][key.lower()]
            current = entry.to
            if not current or current in body or value is None:
                continue
            try:
                body[current] = self._value(entry.convert(value), fields[current], join_path(path, current))
            except ValueError as error:
                if self._treatment is not UnknownKeys.REPORT:
                    body[key] = value
                self.problems.append(Problem(join_path(path, key), str(error)))

    def _value(self, value: Any, field: FieldInfo, path: str) -> Any:
        inner = inner_model(field)
        if inner and isinstance(value, Mapping):  # instead of a list it is refused as a whole
            return value if is_list(field) else self.object(value, inner, path)
        if isinstance(value, (list, tuple)) and len(value) > MAX_LIST_ITEMS:
            self.problems.append(
                Problem(path, f"expected at most {MAX_LIST_ITEMS:,} items, got {len(value):,}")
            )
            return []
        if inner and isinstance(value, (list, tuple)):
            items = []
            for number, item in enumerate(value):
                item_path = join_path(path, number)
                is_object = isinstance(item, Mapping)
                items.append(
                    self.object(item, inner, item_path) if is_object else self._value(item, field, item_path)
                )
            return items
        return self._text(value, field, path) if isinstance(value, str) else value

    def _text(self, value: str, field: FieldInfo, path: str) -> str | int:
        if _TEMPLATE.fullmatch(value):
            fix = "deploy the template, or write the value itself"
            shown = "" if holds(field, SecretStr) else f": {quoted(value)}"
            self.problems.append(Problem(path, f"template expressions are not evaluated here{shown}", fix))
        choices = inner_enum(field)
        known = {str(item.value).lower(): str(item.value) for item in choices} if choices else {}
        text = known.get(value.lower(), value)
        if self._treatment is not UnknownKeys.IGNORE:
            return text
        if holds(field, bool):
            return _SWITCHES.get(text.lower(), text)
        return int(text) if holds(field, int) and _NUMBER.fullmatch(text) else text


def without_unknown_keys(data: Mapping[Any, Any], wrapper: str) -> tuple[dict[str, Any], list[Problem]]:
    """Removes the unknown keys beside `properties` and returns them as problems."""
    unknown = [problem for problem in check_envelope(data, wrapper, "") if problem.message == UNKNOWN_KEY]
    paths = {problem.path for problem in unknown}
    return {str(key): value for key, value in data.items() if str(key) not in paths}, unknown


def check_envelope(data: Mapping[Any, Any], wrapper: str, kind: str) -> list[Problem]:
    """Problems beside `properties`: unknown keys, or a template's resource of another type."""
    known = {key.lower(): key for key in (*ENVELOPE, wrapper)}
    problems: list[Problem] = []
    for key, value in data.items():
        name = known.get(str(key).lower())
        if len(problems) == MAX_PROBLEMS:
            break
        if name is None:
            fix = did_you_mean(str(key), known.values()) or f"put it in {wrapper!r}"
            problems.append(Problem(str(key), UNKNOWN_KEY, fix))
        elif name == "type" and kind and str(value).rsplit("/", 1)[-1].lower().rstrip("s") != kind:
            fix = f"give a resource of type {kind}s"
            problems.append(Problem("type", f"{quoted(value)} is no {kind}", fix))
    return problems
