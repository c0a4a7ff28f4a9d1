"""Lines that tell the phase of those below them: `Validation:`, `*** Eval results ***`, `Evaluating...`."""

from __future__ import annotations

import re

from batchai_magics.metrics.grammar.line_reading import BRANCH
from batchai_magics.metrics.grammar.prefix_grammar import read_prefixes, row_begin

_PHASE_HEADING = re.compile(
    rb"(?:[^\n]{0,160}[ \]:])?(?P<phase>(?i:valid|validation|val|test|evaluation|eval"
    rb"|(?:train(?:ing)?|performance)(?= (?:results?|metrics|stats|summary):)))"
    rb"(?i: results?| error| metrics| stats| summary)?:[ \t]*"
)
_DECORATIONS = (b"-", b"=", b">", b"#", b"*")
_DECORATED_PHASE = re.compile(
    rb"[ \t]*[-=>#*]+[ \t]*(?P<phase>(?i:valid|validation|test|evaluation|eval))"
    rb"(?i: performance| results?| metrics| summary)?[ \t]*[-=<#*]*[ \t]*"
)
_PHASE_WORD = rb"(?P<phase>(?i:valid|validation|validating|eval|evaluation|evaluating|test|testing))"
_PHASE_BEGINS = re.compile(
    rb"(?:(?i:running|starting|start|begin|performing|doing) )?"
    + _PHASE_WORD
    + rb"(?: at step \d{1,18})?[ ]?\.{2,3}[ \t]*\Z"
)
_PHASE_DATA = re.compile(
    rb"(?i:(?:start(?:ing)?|begin(?:ning)?|running|now)[ ])?"
    rb"(?i:evaluating|evaluation|validating|testing)[ ]on[ ](?:the[ ])?"
    rb"(?P<phase>(?i:val|valid|validation|dev|eval|test))(?:[ ](?i:set|split|data|dataset))?[.:]?"
)
_STARRED_PHASE = re.compile(
    rb"[ ](?:\*{3,}|={3,}|-{3,})[ ]*(?:(?i:running) )?"
    + _PHASE_WORD
    + rb"(?i: results?| metrics)?[ ]*[-=*]{3,}[ \t]*\Z"
)
_PHASE_BRANCH = re.compile(
    rb"\xe2\x94[\x9c\x94]" + BRANCH + rb"(?P<phase>(?i:train|validation|val|valid|test))[ ]*"
)
_WORD = re.compile(rb"\w")


def phase_heading(text: bytes) -> re.Match[bytes] | None:
    """What tells the phase of the lines below: `Validation:`, `***** Eval results *****`, `Evaluating...`."""
    end = text.rstrip()[-1:]
    if b"ing on " in text or b"ion on " in text:
        prefixes = read_prefixes(text)
        return _PHASE_DATA.fullmatch(text, prefixes.begin, prefixes.end)
    if end == b":":
        return _PHASE_HEADING.fullmatch(text)
    if end == b"." and (told := _PHASE_BEGINS.search(text)):
        return None if _WORD.search(text, read_prefixes(text).begin, told.start()) else told
    begin = row_begin(text)
    if BRANCH in text:
        return _PHASE_BRANCH.fullmatch(text, begin)
    if text[begin:].lstrip()[:1] in _DECORATIONS:
        return _DECORATED_PHASE.fullmatch(text, begin)
    return _STARRED_PHASE.search(text) if end in (b"*", b"=", b"-") else None
