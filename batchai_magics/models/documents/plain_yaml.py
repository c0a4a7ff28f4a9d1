"""YAML limited to JSON types and bounded alias expansion, with errors that quote no values.

Dates, octal numbers and yes/no stay strings. PyYAML's messages quote the offending text, which may be a
password that starts with `*` or `!`, so quotes are removed.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from batchai_magics.errors import quoted

ALIASED = 100_000  # values and characters that aliases may add

_JSON_TYPES = (
    ("null", r"null|~|", ["n", "~", ""]),
    ("bool", r"true|false|True|False", list("tfTF")),
    ("int", r"-?(?:0|[1-9][0-9]*)", list("-0123456789")),
    ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+][0-9]+)", list("-0123456789")),
    ("merge", r"<<", ["<"]),
)
_TAG = "tag:yaml.org,2002:"
_PATTERNS = {_TAG + name: re.compile(f"(?:{pattern})") for name, pattern, _ in _JSON_TYPES}
_QUOTES = re.compile(r" ?(?<!\w)(?:'(?P<one>(?:[^'\\]|\\.)*)'|\"(?P<two>(?:[^\"\\]|\\.)*)\")")
_TOKENS = re.compile(r"<[a-z ]+>|[^\w\s]{1,3}")


class YamlError(ValueError):
    """Invalid YAML, or a type that JSON lacks; the message has the position and quotes no value."""


def load(text: str) -> Any:
    """Parses a YAML document to the types of JSON.

    Raises:
        YamlError: It is invalid, has a type that JSON lacks, or its aliases expand to too much.
    """
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            # rejects types that JSON lacks, and excessive alias expansion
            sizes = _Sizes()
            if sizes.of(node) - sizes.unexpanded > ALIASED:
                raise _error(f"its aliases stand for more than {ALIASED:,} values and letters", node)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise YamlError(f"{_unquoted(error)}{where}") from None
    except yaml.YAMLError as error:
        raise YamlError(str(getattr(error, "reason", "unknown reason"))) from None


def _unquoted(error: yaml.MarkedYAMLError) -> str:
    """PyYAML's message without quoted text, except punctuation."""
    context, problem = error.context or "", error.problem or ""
    message = problem if context.startswith("while") else f"{context} {problem}".strip()
    return _QUOTES.sub(lambda quote: quote[0] if _TOKENS.fullmatch(quote["one"] or "") else "", message)


class _Loader(yaml.SafeLoader):
    """Resolves plain scalars as JSON does, and rejects duplicate and non-string keys."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  PyYAML's API

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[str] = set()
        for key, _ in node.value:
            if key.tag == f"{_TAG}merge":
                continue
            if not isinstance(key, yaml.ScalarNode):
                raise _error("the key is not text", key)
            if key.value in keys:
                raise YamlError(f"{quoted(key.value)} twice at line {key.start_mark.line + 1}")
            key.tag = f"{_TAG}str"
            keys.add(key.value)
        return super().construct_mapping(node, deep=deep)


for _name, _pattern, _first in _JSON_TYPES:
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(f"^(?:{_pattern})$"), _first)


class _Sizes:
    """The size of nodes in values and characters with aliases expanded; `unexpanded`: without that."""

    def __init__(self) -> None:
        self.unexpanded = 0
        self._known: dict[int, int] = {}
        self._open: set[int] = set()

    def of(self, node: yaml.Node) -> int:
        """The size of a node; also checks its type and that it does not contain itself."""
        if id(node) in self._open:
            raise _error("an alias stands within what it stands for: it is nested in itself", node)
        if id(node) not in self._known:
            if not isinstance(node, yaml.ScalarNode):
                is_plain = node.tag == _TAG + ("map" if isinstance(node, yaml.MappingNode) else "seq")
            elif node.tag in _PATTERNS:
                is_plain = _PATTERNS[node.tag].fullmatch(node.value) is not None
            else:
                is_plain = node.tag == f"{_TAG}str"
            if not is_plain:
                raise _error("a type that JSON does not have", node)
            self._open.add(id(node))
            size = 1 + (len(node.value) if isinstance(node, yaml.ScalarNode) else 0)
            self.unexpanded += size
            inner = () if isinstance(node, yaml.ScalarNode) else node.value
            if isinstance(node, yaml.MappingNode):
                inner = (item for pair in node.value for item in pair)
            self._known[id(node)] = size + sum(map(self.of, inner))
            self._open.discard(id(node))
        return self._known[id(node)]


def _error(message: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, message, node.start_mark)
