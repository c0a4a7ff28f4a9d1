"""Headings that name the phase of the lines below, or their fit if the run has several.

`Validation:`, `*** Eval results ***`, `Evaluating...`; `Fold 2/5`, `=== Seed 42 ===`, `Refit on all data`.
"""

from __future__ import annotations

import re

from batchai_magics.metrics.grammar.parsed_line import BRANCH
from batchai_magics.metrics.grammar.prefix_grammar import read_prefixes, row_begin

_PHASE_HEADING = re.compile(
    rb"(?:[^\n]{0,160}[ \t\]:])?(?P<phase>(?i:valid|validation|val|test|evaluation|eval"
    rb"|(?:train(?:ing)?|performance)(?=[ _](?:results?|metrics|stats|summary):)))"
    rb"(?i:[ ]set)?(?i:[ _](?:results?|error|metrics|stats|summary))?:[ \t]*"
)
_TRAIN_GROUP = re.compile(rb"[ \t]*(?P<phase>[Tt]rain(?:ing)?):[ \t]*")
_PHASE_OBJECT = re.compile(rb"""[ \t]+["'](?P<phase>train|training|val|valid|validation|eval|test)["']: \{""")
_OBJECT_END = re.compile(rb"(?P<phase>)[ \t]+\},?")
_DECORATIONS = (b"-", b"=", b">", b"#", b"*")
_DECORATED_PHASE = re.compile(
    rb"[ \t]*[-=>#*]+[ \t]*(?P<phase>(?i:valid|validation|test|evaluation|eval))"
    rb"(?i: performance| results?| metrics| summary)?[ \t]*[-=<#*]*[ \t]*"
)
_PHASE_WORD = rb"(?P<phase>(?i:valid|validation|validating|eval|evaluation|evaluating|test|testing))"
_PHASE_BEGINS = re.compile(
    rb"(?:(?i:running|starting|start|begin|performing|doing) )?"
    + _PHASE_WORD
    + rb"(?i: at step \d{1,18}| begins?| starts?| started)?[ ]?\.{2,3}[ \t]*\Z"
)
_PHASE_DATA = re.compile(
    rb"(?i:(?:start(?:ing)?|begin(?:ning)?|running|now)[ ])?"
    rb"(?i:evaluating|evaluation|validating|testing)[ ]on[ ](?:the[ ])?"
    rb"(?P<phase>(?i:val|valid|validation|dev|eval|test))(?:[ ](?i:set|split|data|dataset))?[.:]?"
)
_EVALUATED_PHASE = re.compile(
    rb"(?i:evaluate|evaluating|evaluation)[ ]?:[ ]?"
    rb"(?P<phase>(?i:val|valid|validation|dev|test))(?:[ ](?i:set|data))?"
)
_STARRED_PHASE = re.compile(
    rb"[ ](?:\*{3,}|={3,}|-{3,})[ ]*(?:(?i:running) )?"
    + _PHASE_WORD
    + rb"(?i: results?| metrics)?[ ]*[-=*]{3,}[ \t]*\Z"
)
_PHASE_BRANCH = re.compile(
    rb"\xe2\x94[\x9c\x94]" + BRANCH + rb"(?P<phase>(?i:train|validation|val|valid|test))[ ]*"
)
_ANY_WORD = re.compile(rb"\w")

REFIT = "Refit"
_MOST_BYTES = 300  # of a line
_FIT_WORD = re.compile(rb"(?i)fold|seed|split|run|trial|repeat|restart|fit")
_BEGINS = (
    r"(?:(?:now[ ])?(?:start(?:ing)?|begin(?:ning)?|running|run|training|train|fitting|processing)[ ]"
    r"(?:(?:on|with|for|model)[ ])?(?:the[ ])?)?(?:(?:cv|cross[ -]validation)[ ])?"
)
_KIND = r"fold|seed|split|run|trial|repeat|restart"
_SIGN = r"(?:[ ]?(?:no\.|number|[#:=]))?[ ]{0,2}#?"
_TOTAL = r"(?:[ ]?(?:/|of)[ ]?[0-9]{0,9})?"
_REFIT = r"(?:refit(?:ting)?|re-fit(?:ting)?|final[ ]fit)"
_DECORATION = r"[-=*#<>~\[\]() \t]{0,80}"
_FIT_HEADING = re.compile(
    (
        rf"(?i){_DECORATION}"
        rf"(?:{_BEGINS}(?P<kind>{_KIND}){_SIGN}(?P<number>[0-9]{{0,12}}){_TOTAL}"
        rf"|(?P<refit>{_REFIT})(?P<what>(?:[ ][a-z+]{{1,20}}){{0,8}}))"
        rf"[.:]{{0,3}}{_DECORATION}"
    ).encode()
)
FIT_EXPRESSION = (
    r"(?:^[ \t]*|[^a-z0-9 \t,\n][ \t]*|[0-9]z?[ \t]+|(?:info|debug)[ \t]+)"
    rf"(?:{_BEGINS}(?:{_KIND}){_SIGN}[0-9]{{0,12}}{_TOTAL}|{_REFIT}(?:[ ][a-z+]+){{0,8}})"
    r"[-.:=*#<>~\[\]() \t]*$"
)
"""Every line with a heading of a fit matches this, with any digits; for RE2."""


def phase_heading(text: bytes) -> re.Match[bytes] | None:
    """The match of a heading that names a phase, in group `phase`: `Validation:`, `Evaluating...`."""
    end = text.rstrip()[-1:]
    if b"ing on " in text or b"ion on " in text:
        prefixes = read_prefixes(text)
        return _PHASE_DATA.fullmatch(text, prefixes.begin, prefixes.end)
    if b"valuat" in text and b":" in text:
        prefixes = read_prefixes(text)
        if heading := _EVALUATED_PHASE.fullmatch(text, prefixes.begin, prefixes.end):  # `evaluate:dev`
            return heading
    if end == b"{":
        return _PHASE_OBJECT.fullmatch(text)
    if end in (b"}", b","):
        return _OBJECT_END.fullmatch(text)
    if end == b":":
        return _PHASE_HEADING.fullmatch(text) or _TRAIN_GROUP.fullmatch(text)
    if end == b"." and (heading := _PHASE_BEGINS.search(text)):
        has_words = _ANY_WORD.search(text, read_prefixes(text).begin, heading.start())
        return None if has_words else heading
    begin = row_begin(text)
    if BRANCH in text:
        return _PHASE_BRANCH.fullmatch(text, begin)
    if text[begin:].lstrip()[:1] in _DECORATIONS:
        return _DECORATED_PHASE.fullmatch(text, begin)
    return _STARRED_PHASE.search(text) if end in (b"*", b"=", b"-") else None


def fit_of_heading(line: bytes) -> str | None:
    """The name of the fit that begins below a line: `Fold 2`, `Refit on all data`; None for other lines."""
    match = fit_heading(line)
    if match is None:
        return None
    if match["refit"]:
        return REFIT + match["what"].decode()
    number = match["number"].decode()
    return f"{match['kind'].decode().capitalize()} {number}" if number else None


def fit_heading(line: bytes) -> re.Match[bytes] | None:
    """The match of a line that may, with other digits, be the heading of a fit; else None."""
    if len(line) > _MOST_BYTES or not _FIT_WORD.search(line):
        return None
    if match := _FIT_HEADING.fullmatch(line):
        return match
    prefixes = read_prefixes(line)
    return _FIT_HEADING.fullmatch(line, prefixes.begin)
