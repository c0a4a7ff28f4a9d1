"""User-supplied regular expressions, matched in linear time.

The engine is RE2, https://github.com/google/re2/wiki/Syntax. Python's own backtracks: `(a+)+$` may take
forever on a line of fifty letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias, cast

from batchai_magics.errors import UsageError
from batchai_magics.log_lines import line_end, line_start

_HINT = (
    "RE2 searches it, in linear time: write it without look-around such as (?=x), without back-references "
    r"such as \1, and with 1000 repetitions at most."
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_LINE_ENDS = {"A": "^", "z": "$", "Z": "$"}


Expression: TypeAlias = "re.Pattern[bytes]"
"""A compiled expression on bytes. RE2's has the same methods; its `groupindex` has names as bytes."""


def compile_expression(source: str, *, option: str, ignores_case: bool = False) -> Expression:
    """Compile an expression that matches within a line; `^` and `$` match at line ends.

    Args:
        source: The expression, in RE2 syntax.
        option: The option it was given for, named in errors.
        ignores_case: Match case-insensitively.

    Raises:
        UsageError: RE2 rejects the expression.
    """
    import re2

    options = re2.Options()
    options.case_sensitive = not ignores_case
    options.encoding = options.Encoding.LATIN1  # one character per byte: logs contain invalid UTF-8
    options.log_errors = False
    options.never_nl = True
    by_line = _ESCAPED.sub(lambda pair: _LINE_ENDS.get(pair[1], pair[0]), source)
    try:
        return cast("re.Pattern[bytes]", re2.compile(f"(?m){by_line}".encode(), options))
    except (re2.error, UnicodeEncodeError) as error:
        raise UsageError(
            f"{option}: {source!r} is not a valid expression: {_reason(error)}", hint=_HINT
        ) from error


def compile_number(source: str, *, option: str) -> Expression:
    """Compile an expression with a group for a number; UsageError if it has no group."""
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


def matching_lines(expression: Expression, data: bytes) -> Iterator[int]:
    """The start positions of the lines that contain a match."""
    position = 0
    while position < len(data) and (match := expression.search(data, position)):
        start = line_start(data, match.start())
        if start < len(data):
            yield start
        position = line_end(data, match.end()) or len(data)
