"""Values in the command lines of a job: each is an argument, or part of one, never text of the shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from batchai_magics.errors import UsageError

# A marker stands for a value that is filled in later. It is a Python name, so that a script stays valid.
_PREFIX, _SUFFIX = "__param_", "__"
MARKER = f"{_PREFIX}{{}}{_SUFFIX}"
_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)  # means itself wherever it stands
_COMMAND = re.compile(r"command_?line(_?args)?$|mount_?command$", re.IGNORECASE)
_PATH = re.compile(r"(scriptfile|interpreter|configfile)path$", re.IGNORECASE)  # where $NAME expands
_UNKNOWN = "?"  # a place that is read twice: $(…), `…`, a here-document, eval, bash -c; or a comment
_TOKENS = {  # by the quote that is open
    "": re.compile(r"\\.|\$\{\w+\}|(?P<unknown>\$[({'\"]|<<|`|(?<!\S)#|[\\$]\Z)|(?P<quote>['\"])", re.DOTALL),
    '"': re.compile(r"\\.|\$\{\w+\}|(?P<unknown>\$[({]|`|[\\$]\Z)|(?P<quote>\")", re.DOTALL),
    "'": re.compile(r"(?P<quote>')"),
}
_READS_AGAIN = re.compile(r"\(\(|\[\[|\b(eval|let|ssh|su|(ba|da|k|z)?sh\s+(-\w+\s+)*-\w*c)\b")


def is_plain(value: object) -> bool:
    """Whether a value means itself anywhere in a command line."""
    return _PLAIN.fullmatch(str(value)) is not None


def filled_fields(data: Any, values: Mapping[str, object]) -> Any:
    """The JSON of a job's description with the values in place of their markers, in its strings.

    Raises:
        UsageError: A value cannot be an argument where its marker stands.
    """
    if not values:
        return data
    names = sorted(values, key=len, reverse=True)
    return _with_values("", data, re.compile("|".join(map(MARKER.format, names))), values)


def _with_values(key: str, data: Any, markers: re.Pattern[str], values: Mapping[str, object]) -> Any:
    if isinstance(data, Mapping):
        return {name: _with_values(name, item, markers, values) for name, item in data.items()}
    if isinstance(data, list):
        return [_with_values(key, item, markers, values) for item in data]
    if not isinstance(data, str):
        return data
    parts, quote, end = list[str](), "", 0
    for match in markers.finditer(data):
        before = data[end : match.start()]
        value = str(values[match[0].removeprefix(_PREFIX).removesuffix(_SUFFIX)])
        if _COMMAND.search(key):
            quote = _quote_after(before, quote)
            value = _argument(value, quote)
        elif _PATH.search(key) and "$" in value:
            raise UsageError(f"{value!r} cannot be part of a path: a shell would expand it")
        parts += [before, value]
        end = match.end()
    return "".join([*parts, data[end:]])


def _quote_after(text: str, quote: str) -> str:
    """The quote that is open after a piece of a command line, given the one before it."""
    position = 0
    while quote != _UNKNOWN and (match := _TOKENS[quote].search(text, position)):
        position = match.end()
        if match.lastgroup == "unknown":
            return _UNKNOWN
        if match.lastgroup == "quote":
            quote = "" if quote else match[0]
    return _UNKNOWN if _READS_AGAIN.search(text) else quote


def _argument(value: str, quote: str) -> str:
    if is_plain(value):
        return value
    if quote == _UNKNOWN:
        text = f"{value!r} cannot be an argument where a shell reads it again, as in $(…) or bash -c"
        raise UsageError(text, hint="Read it from its variable instead: $PARAM_NAME for a sweep's parameter.")
    if quote == "'":
        return value.replace("'", "'\\''")
    return re.sub(r'([\\$`"])', r"\\\1", value) if quote else shlex.quote(value)
