"""Text of a description file → plain data: JSON or YAML by its content, mistakes with line and column."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from batchai_magics.errors import UsageError
from batchai_magics.models.checks import duplicates


def read_file(path: Path) -> str:
    """The text of a description file; raises UsageError that names a file that cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"there is no file {path.absolute()}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text file", hint="expected JSON or YAML in UTF-8") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None


def parse(text: str, *, source: str) -> dict[str, Any]:
    """The object that JSON (it begins with a brace) or YAML text holds; `source` names it in errors."""
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
    return dict(data)


def _json(text: str, source: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _once(pairs, source))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise UsageError(f"{source} is no valid JSON: {error.msg} at {where}") from None


def _once(pairs: list[tuple[str, Any]], source: str) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        twice = duplicates(key for key, _ in pairs)[0]
        raise UsageError(f"{source} has the key {twice!r} twice in one object")
    return data


def _yaml(text: str, source: str) -> Any:
    import yaml

    try:
        return yaml.load(text, Loader=_loader())  # a SafeLoader with fewer types
    except yaml.MarkedYAMLError as error:
        # The error's own text quotes the line, which may hold a key; where it is says enough.
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise UsageError(f"{source} is no valid YAML: {error.problem or error.context}{where}") from None
    except yaml.YAMLError as error:
        reason = str(getattr(error, "reason", "unknown reason"))
        raise UsageError(f"{source} is no valid YAML: {reason}") from None


def _loader() -> Any:
    """YAML with JSON's types only: dates, octal numbers and yes/no stay the text that was written."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Tells a key that is there twice or is no text."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen: set[str] = set()
            for key, _ in node.value:
                if key.tag == "tag:yaml.org,2002:merge":
                    continue
                if not isinstance(key, yaml.ScalarNode) or key.value in seen:
                    is_text = isinstance(key, yaml.ScalarNode)
                    message = f"{key.value!r} twice" if is_text else "the key is no text"
                    raise yaml.constructor.ConstructorError(None, None, message, key.start_mark)
                key.tag = "tag:yaml.org,2002:str"
                seen.add(key.value)
            return super().construct_mapping(node, deep=deep)

    Loader.yaml_implicit_resolvers = {}
    for tag, pattern, first in _JSON_TYPES:
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), first)
    return Loader


_JSON_TYPES = (
    ("null", r"null|~|", ["n", "~", ""]),
    ("bool", r"true|false|True|False", list("tfTF")),
    ("int", r"-?(?:0|[1-9][0-9]*)", list("-0123456789")),
    ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+][0-9]+)", list("-0123456789")),
    ("merge", r"<<", ["<"]),
)
