"""Regular expressions that people type, searched in time that grows with the text alone.

The engine is RE2, https://github.com/google/re2/wiki/Syntax. Python's own may take forever: `(a+)+$` does on
a line of fifty letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Protocol, cast

from batchai_magics.errors import UsageError

_HINT = (
    "RE2 searches it, in linear time: write it without look-around such as (?=x), without back-references "
    r"such as \1, and with 1000 repetitions at most."
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_LINE_ENDS = {"A": "^", "z": "$", "Z": "$"}


class Match(Protocol):
    """Where an expression was found; groups as in Python's `re.Match[bytes]`."""

    def __getitem__(self, group: int | str, /) -> bytes | None:
        """What a group found, None where it took no part."""

    def start(self) -> int:
        """Where the whole of it begins."""

    def end(self) -> int:
        """Where it ends."""


class Expression(Protocol):
    """A compiled expression on bytes, with the part of `re.Pattern[bytes]` that is used here."""

    @property
    def groups(self) -> int:
        """How many groups there are."""

    @property
    def groupindex(self) -> Mapping[bytes, int]:
        """The numbers of the groups that have a name."""

    def search(self, text: bytes, start: int = 0, /) -> Match | None:
        """The first place from `start` on."""

    def finditer(self, text: bytes, /) -> Iterator[Match]:
        """All places, from left to right."""


def compile_expression(source: str, *, option: str, ignores_case: bool = False) -> Expression:
    """The expression, of which no match goes over a line's end; `^` and `$` are the ends of a line.

    UsageError, which names the `option`, for one that RE2 does not take.
    """
    import re2

    options = re2.Options()
    options.case_sensitive = not ignores_case
    options.encoding = options.Encoding.LATIN1  # a byte is a character: logs hold broken UTF-8
    options.log_errors = False
    options.never_nl = True
    by_line = _ESCAPED.sub(lambda pair: _LINE_ENDS.get(pair[1], pair[0]), source)
    try:
        return cast("Expression", re2.compile(f"(?m){by_line}".encode(), options))
    except (re2.error, UnicodeEncodeError) as error:
        raise UsageError(
            f"{option}: {source!r} is no valid expression: {_reason(error)}", hint=_HINT
        ) from error


def compile_number(source: str, *, option: str) -> Expression:
    """An expression whose groups tell a number; UsageError for one that has none."""
    expression = compile_expression(source, option=option)
    if not expression.groups:
        raise UsageError(
            f"{option}: {source!r} has no group, so it does not say which number is meant",
            hint=r"Put the number in round brackets, for example loss='loss: (\d+\.\d+)'.",
        )
    return expression


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return error.reason
    return str(error.args[0].decode("utf-8", "replace")).replace("(?m)", "")


def lines_found(expression: Expression | re.Pattern[bytes], data: bytes) -> Iterator[int]:
    """Where the lines begin in which the expression is found; none of its matches goes over a line's end."""
    place = 0
    while place < len(data) and (match := expression.search(data, place)):
        start = data.rfind(b"\n", 0, match.start()) + 1
        if start < len(data):
            yield start
        place = data.find(b"\n", match.end()) + 1 or len(data)
