"""Headings of one fit among several: `Fold 2/5`, `=== Seed 42 ===`, `Trial 3`, `Refit on all data`."""

from __future__ import annotations

import re

from batchai_magics.metrics.grammar.prefix_grammar import read_prefixes

REFIT = "Refit"
_MOST_BYTES = 300  # of a line
_WORD = re.compile(rb"(?i)fold|seed|split|run|trial|repeat|restart|fit")
_BEGINS = (
    r"(?:(?:now[ ])?(?:start(?:ing)?|begin(?:ning)?|running|run|training|train|fitting|processing)[ ]"
    r"(?:(?:on|with|for|model)[ ])?(?:the[ ])?)?(?:(?:cv|cross[ -]validation)[ ])?"
)
_KIND = r"fold|seed|split|run|trial|repeat|restart"
_SIGN = r"(?:[ ]?(?:no\.|number|[#:=]))?[ ]{0,2}#?"
_TOTAL = r"(?:[ ]?(?:/|of)[ ]?[0-9]{0,9})?"
_REFIT = r"(?:refit(?:ting)?|re-fit(?:ting)?|final[ ]fit)"
_DECORATION = r"[-=*#<>~\[\]() \t]{0,80}"
_HEADING = re.compile(
    (
        rf"(?i){_DECORATION}"
        rf"(?:{_BEGINS}(?P<kind>{_KIND}){_SIGN}(?P<number>[0-9]{{0,12}}){_TOTAL}"
        rf"|(?P<refit>{_REFIT})(?P<what>(?:[ ][a-z+]{{1,20}}){{0,8}}))"
        rf"[.:]{{0,3}}{_DECORATION}"
    ).encode()
)
EXPRESSION = (
    r"(?:^|[^a-z0-9 \t,][ \t]*|[0-9][ \t]+|(?:info|debug)[ \t]+)"
    rf"(?:{_BEGINS}(?:{_KIND}){_SIGN}[0-9]{{0,12}}{_TOTAL}|{_REFIT}(?:[ ][a-z+]+){{0,8}})"
    r"[-.:=*#<>~\[\]() \t]*$"
)
"""What a line with a heading has, with any digits; for RE2."""


def may_begin_fit(line: bytes) -> bool:
    """Whether a line with other digits may be the heading of a fit."""
    return _heading(line) is not None


def fit_of_heading(line: bytes) -> str | None:
    """The name of the fit that begins below a line: `Fold 2`, `Refit on all data`; None for other lines."""
    found = _heading(line)
    if found is None:
        return None
    if found["refit"]:
        return REFIT + found["what"].decode()
    number = found["number"].decode()
    return f"{found['kind'].decode().capitalize()} {number}" if number else None


def _heading(line: bytes) -> re.Match[bytes] | None:
    if len(line) > _MOST_BYTES or not _WORD.search(line):
        return None
    if found := _HEADING.fullmatch(line):
        return found
    prefixes = read_prefixes(line)
    return _HEADING.fullmatch(line, prefixes.begin)
