"""Parses the text of a spec file, JSON or YAML by its content; errors have line and column."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from batchai_magics.errors import SpecError, UsageError, quoted
from batchai_magics.models.documents.spec_problems import surrogates_in
from batchai_magics.models.field_types import duplicates

_LARGEST = 16 << 20  # maximum size in bytes


def read_file(path: Path) -> str:
    """Reads a spec file of at most 16 MiB.

    Raises:
        UsageError: It is missing, unreadable, too large or not UTF-8.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)  # devices may be endless
        if len(data) > _LARGEST:
            raise UsageError(f"{path} is larger than {_LARGEST >> 20} MiB: it is not a description")
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        raise UsageError(f"{path.absolute()} does not exist") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text file", hint="expected JSON or YAML in UTF-8") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None


def parse(text: str, *, source: str) -> dict[str, Any]:
    """Parses an object in JSON (it starts with a brace) or YAML; `source` names it in errors.

    Raises:
        SpecError: It has lone surrogates.
        UsageError: It is empty, invalid, no object, or has a key twice; with line and column where known.
    """
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise UsageError(f"{source} is empty", hint='expected a description such as {"properties": {…}}')
    try:
        data = _json(text, source) if text.lstrip()[0] in "{[" else _yaml(text, source)
        json.dumps(data)
    except RecursionError:
        raise UsageError(f"{source} is nested too deeply") from None
    except ValueError:
        raise UsageError(f"{source} is nested in itself, or holds a number that is too long") from None
    if not isinstance(data, Mapping):
        raise UsageError(
            f"{source} holds no object", hint='expected a description such as {"properties": {…}}'
        )
    unwritable = list(surrogates_in(data, ""))
    if unwritable:
        raise SpecError(unwritable, what=source)
    return dict(data)


def _json(text: str, source: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _unique_keys(pairs, source))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise UsageError(f"{source} is not valid JSON: {error.msg} at {where}") from None


def _unique_keys(pairs: list[tuple[str, Any]], source: str) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        twice = duplicates(key for key, _ in pairs)[0]
        raise UsageError(f"{source} has the key {quoted(twice)} twice in one object")
    return data


def _yaml(text: str, source: str) -> Any:
    from batchai_magics.models.documents.plain_yaml import YamlError, load

    try:
        return load(text)
    except YamlError as error:
        raise UsageError(f"{source} is not valid YAML: {error}") from None
