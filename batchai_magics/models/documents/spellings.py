"""A description in any spelling becomes one in that of the 2018-05-01 API, by one table of old names.

Keys are taken in any letter case, as the old clients took them; OLD lists what had another name or is no
longer there. Values keep their letter case, but for those of an enum.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from batchai_magics.errors import Problem, did_you_mean, join_path, quoted
from batchai_magics.models.documents.problems import (
    LONGEST_LIST,
    MOST_KEYS,
    MOST_PROBLEMS,
    UNKNOWN_KEY,
    holds,
    inner_enum,
    inner_model,
    unknown_key,
    wire_fields,
)


@dataclass(frozen=True)
class Old:
    """What became of an old key: `to` is its key now (empty: it is dropped), `convert` makes the value."""

    to: str = ""
    convert: Callable[[Any], Any] = str


def _priority(value: Any) -> str:
    """The 2017 preview's number from -1000 to 1000 as low, normal or high."""
    if isinstance(value, bool) or not isinstance(value, int) or not -1000 <= value <= 1000:
        raise ValueError(
            "expected a whole number from -1000 to 1000, or schedulingPriority: low, normal or high"
        )
    return "low" if value < 0 else "high" if value > 0 else "normal"


def _same(value: Any) -> Any:
    return value


# What may stand beside `properties`: in a job file, in an ARM template, in what the service shows.
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

_CREDENTIALS = {"credentialsinfo": Old("credentials", _same)}  # of the 2017 schema
_SHOWN_BY_THE_SERVICE = dict.fromkeys(
    ("creationtime", "errors", "provisioningstate", "provisioningstatetransitiontime"), Old()
)

# Model → lower-case old key → what became of it. Keys that only differ in letter case need no entry.
OLD: dict[str, dict[str, Old]] = {
    "JobSpec": {
        "priority": Old("schedulingPriority", _priority),
        "experimentname": Old(),
        "tooltype": Old(),
        "joboutputdirectorypathsegment": Old(),
        "executionstate": Old(),
        "executionstatetransitiontime": Old(),
        "executioninfo": Old(),
        "batchairanks": Old(),
        **_SHOWN_BY_THE_SERVICE,
    },
    "ClusterSpec": {
        "allocationstate": Old(),
        "allocationstatetransitiontime": Old(),
        "currentnodecount": Old(),
        "nodestatecounts": Old(),
        **_SHOWN_BY_THE_SERVICE,
    },
    "OutputDirectory": {"type": Old()},
    "AzureFileShare": _CREDENTIALS,
    "AzureBlobFileSystem": _CREDENTIALS,
    "ResourceRef": {"resourcegroup": Old()},
}

_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_SWITCHES = {"true": True, "false": False}
_TEMPLATE = re.compile(
    r"\[\s*(?:parameters|variables|concat|resourceId|reference|resourceGroup|subscription|copyIndex|deployment"
    r"|listKeys|uniqueString|format|if|int|string|toLower|toUpper)\s*\(.*\]",
    re.IGNORECASE | re.DOTALL,
)


def respell(
    data: Mapping[Any, Any], model: type[BaseModel], path: str
) -> tuple[dict[str, Any], list[Problem]]:
    """`data` in today's spelling, and what could not be respelt; such keys are left as they are."""
    reader = _Reader()
    return reader.object(data, model, path), reader.problems


def known_fields(data: Mapping[Any, Any], model: type[BaseModel]) -> dict[str, Any]:
    """`data` in today's spelling, without what the model does not have, at any depth."""
    return without_unknown(respell(data, model, "")[0], model, "")[0]


def without_unknown(
    body: Mapping[str, Any], model: type[BaseModel], path: str
) -> tuple[dict[str, Any], list[Problem]]:
    """`body`, in today's spelling, without the keys that no model on their way has, and those keys."""
    sieve = _Sieve()
    return sieve.object(body, model, path), sieve.unknown


def far_too_many_unknown(body: Mapping[str, Any], model: type[BaseModel], path: str) -> list[Problem]:
    """The first unknown keys and how many there are, where there are more than are told; else nothing."""
    sieve = _Sieve()
    sieve.object(body, model, path)
    if sieve.count <= MOST_PROBLEMS:
        return []
    return [*sieve.unknown, Problem(path, f"{sieve.count - MOST_PROBLEMS:,} more unknown keys")]


def without_strangers(data: Mapping[Any, Any], wrapper: str) -> tuple[dict[str, Any], list[Problem]]:
    """`data` without the keys beside `properties` that nothing knows, and those keys."""
    unknown = [problem for problem in check_envelope(data, wrapper, "") if problem.message == UNKNOWN_KEY]
    paths = {problem.path for problem in unknown}
    return {str(key): value for key, value in data.items() if str(key) not in paths}, unknown


def check_envelope(data: Mapping[Any, Any], wrapper: str, kind: str) -> list[Problem]:
    """What is wrong beside `properties`: unknown keys, or a template's resource of another type."""
    known = {key.lower(): key for key in (*ENVELOPE, wrapper)}
    problems: list[Problem] = []
    for key, value in data.items():
        name = known.get(str(key).lower())
        if len(problems) == MOST_PROBLEMS:
            break
        if name is None:
            fix = did_you_mean(str(key), known.values()) or f"put it in {wrapper!r}"
            problems.append(Problem(str(key), UNKNOWN_KEY, fix))
        elif name == "type" and kind and _noun(value) != kind:
            fix = f"give a resource of type {kind}s"
            problems.append(Problem("type", f"{quoted(value)} is no {kind}", fix))
    return problems


def _noun(wire_type: Any) -> str:
    """`job` of `Microsoft.BatchAI/workspaces/experiments/jobs`."""
    return str(wire_type).rsplit("/", 1)[-1].lower().rstrip("s")


class _Sieve:
    """Walks a body and its models together, and collects the keys that a model does not have."""

    def __init__(self) -> None:
        self.unknown: list[Problem] = []
        self.count = 0  # of all unknown keys, also of those for which there is no room in `unknown`

    def object(self, body: Mapping[str, Any], model: type[BaseModel], path: str) -> dict[str, Any]:
        """One object with the keys that are known, today's or old ones that could not be respelt."""
        fields, old = wire_fields(model), OLD.get(model.__name__, {})
        kept: dict[str, Any] = {}
        for key, value in body.items():
            if key in fields:
                kept[key] = self._value(value, fields[key], join_path(path, key))
            elif key.lower() in old:
                kept[key] = value
            else:
                self.count += 1
                if self.count <= MOST_PROBLEMS:
                    self.unknown.append(unknown_key(join_path(path, key), model, key))
        return kept

    def _value(self, value: Any, field: FieldInfo, path: str) -> Any:
        inner = inner_model(field)
        if inner and isinstance(value, Mapping):
            return self.object(value, inner, path)
        if inner and isinstance(value, list):
            return [self._value(item, field, join_path(path, index)) for index, item in enumerate(value)]
        return _unquoted(value, field) if isinstance(value, str) else value


def _unquoted(value: str, field: FieldInfo) -> str | int:
    """`2` and `True` in quotes, as files have them, as the number or the switch that the field holds."""
    if holds(field, bool):
        return _SWITCHES.get(value.lower(), value)
    return int(value) if holds(field, int) and _NUMBER.fullmatch(value) else value


class _Reader:
    """Walks data and models together, and collects the problems on the way."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def object(self, data: Mapping[Any, Any], model: type[BaseModel], path: str) -> dict[str, Any]:
        """One object in today's spelling; nothing of one that has far too many keys."""
        if len(data) > MOST_KEYS:
            self.problems.append(Problem(path, f"expected at most {MOST_KEYS:,} keys, got {len(data):,}"))
            return {}
        fields = wire_fields(model)
        names = {name.lower(): name for name in fields}
        old = OLD.get(model.__name__, {})
        written = {str(key): value for key, value in data.items()}
        body: dict[str, Any] = {}
        for spelling, value in written.items():
            if spelling.lower() in names:
                key = names[spelling.lower()]
                self._add(
                    body, spelling, key, self._value(value, fields[key], join_path(path, key)), path=path
                )
            elif spelling.lower() not in old:
                body[spelling] = value
        outdated = {key: value for key, value in written.items() if key.lower() in old}
        self._modernise(body, outdated, model, path=path)
        return body

    def _add(self, body: dict[str, Any], spelling: str, key: str, value: Any, *, path: str) -> None:
        if key in body:
            self.problems.append(Problem(join_path(path, spelling), f"this key is there twice: {key}"))
        elif value is not None:  # null says nothing, as it did to the service
            body[key] = value

    def _modernise(
        self, body: dict[str, Any], outdated: Mapping[str, Any], model: type[BaseModel], *, path: str
    ) -> None:
        """Puts the values of outdated keys into `body`, unless today's key is there too."""
        fields = wire_fields(model)
        for key, value in outdated.items():
            entry = OLD[model.__name__][key.lower()]
            if not entry.to or entry.to in body or value is None:
                continue
            try:
                body[entry.to] = self._value(
                    entry.convert(value), fields[entry.to], join_path(path, entry.to)
                )
            except ValueError as error:
                body[key] = value
                self.problems.append(Problem(join_path(path, key), str(error)))

    def _value(self, value: Any, field: FieldInfo, path: str) -> Any:
        inner = inner_model(field)
        if inner and isinstance(value, Mapping):
            return self.object(value, inner, path)
        if isinstance(value, (list, tuple)) and len(value) > LONGEST_LIST:
            self.problems.append(
                Problem(path, f"expected at most {LONGEST_LIST:,} items, got {len(value):,}")
            )
            return []
        if inner and isinstance(value, (list, tuple)):
            return [self._value(item, field, join_path(path, index)) for index, item in enumerate(value)]
        return self._text(value, field, path) if isinstance(value, str) else value

    def _text(self, value: str, field: FieldInfo, path: str) -> str:
        if _TEMPLATE.fullmatch(value):
            fix = "deploy the template, or write the value itself"
            shown = "" if holds(field, SecretStr) else f": {quoted(value)}"
            self.problems.append(Problem(path, f"template expressions are not evaluated here{shown}", fix))
        choices = inner_enum(field)
        known = {str(item.value).lower(): str(item.value) for item in choices} if choices else {}
        return known.get(value.lower(), value)
