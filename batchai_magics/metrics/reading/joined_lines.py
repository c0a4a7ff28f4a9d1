"""Splits lines that several processes wrote without a newline between them.

A program that prints unbuffered writes a line and its newline separately, so that another process may write
in between. What stands where one line ends and the next begins tells the two apart: words with which lines
begin, or numbers of so many decimals that it is known where a line ends. Digits before a step may belong to
the line in front; where that cannot be decided, both lines are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from batchai_magics.metrics.grammar.prefix_grammar import read_prefixes
from batchai_magics.metrics.grammar.program_lines import source_of
from batchai_magics.metrics.programs import PROGRAM_FACTS, PROGRAM_LINES
from batchai_magics.metrics.reading.prefix_patterns import LABEL
from batchai_magics.metrics.timestamps import DIGITS

_BEGINNINGS = (
    rb"(?:Iter|Step) #\d",  # Horovod
    rb"(?:Img/sec per|Total img/sec on|Number of|Running warmup|Running benchmark|Batch size: ) ?",
    rb"Finished (?:Epoch|Evaluation )\[",  # CNTK
    rb"(?:(?<!\]) )?Evaluation Minibatch\[",  # a blank behind a label is of the label
    rb"(?<!Evaluation)(?:(?<!\]) )?Minibatch\[",
    rb"(?:Train )?Epoch:? \d",  # Keras, PyTorch
    rb"Test (?:loss|accuracy|set): ",
    rb":::ML(?:L|Pv\d\.\d\.\d) ",
    rb"DLLL? (?:\{|\d\d)",
    rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: [IWEF] ",  # TensorFlow's own messages in between
    rb"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} ",
    rb"(?:INFO|WARNING|ERROR):\w",
    rb"={10}",  # below a header
)
_COUNTER = rb"\d{1,18}/(?:\d{1,18}|Unknown) (?:\[|- |[\x80-\xff])"  # Keras
_BEHIND_NUMBER = rb"(?:(?<=\d\.\d{4})|(?<=\de[+-]\d\d)|(?<=/step))"
_END = rb"(?<=[\w.;%)\]}])(?![a-z])"  # of a line; none begins with a small letter
_LABEL = rb"(?:\[\d{1,6}\] )?"
_SEAM = re.compile(
    _END + rb"(?=" + _LABEL + rb"(?:" + rb"|".join(_BEGINNINGS) + rb")"
    rb"|\[\d{1,6}\] \Z)"  # the label of the next line
    rb"|" + _BEHIND_NUMBER + rb"(?=" + _LABEL + _COUNTER + rb")"
    rb"|(?<=\})(?=\{\")"
)
_ALIGNED = [row for row in PROGRAM_FACTS if row.is_aligned]
_ALIGNED_LITERALS = tuple(literal for row in _ALIGNED for literal in row.literals)
_ALIGNED_SEAM = re.compile(
    _END
    + rb"(?<!\d\])(?="
    + _LABEL
    + rb"(?:"
    + rb"|".join(source_of(row).encode() for row in _ALIGNED)
    + rb"))"
)
_OPEN_NUMBER = re.compile(
    rb"(?:\d\.|images/sec: |(?P<most>Num batches: |global_step )|(?:vgg|resnet|inception|cifar))\Z"
)
"""What is before digits of which the first belong to another number: `most`, one that no step exceeds."""

_FIXED_DIGITS = {
    re.compile(rb"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \Z"): 4,  # a year
    re.compile(rb"\(jitter = \d+\.\d\)[ \t]+(?:-?\d+|\S+[ \t]+\S+[ \t]+\d)\.\Z"): 3,  # of a cut line
    re.compile(rb"Num epochs: +\d+\.\Z"): 2,
}
"""How many digits a number goes on with behind its beginning."""

_MAX_LABEL_BYTES = 64
_MAX_DIGITS = 36  # of two numbers
_STEP = re.compile(rb"1|[1-9]\d*0")  # the first one, or one of every ten
_RUN = re.compile(rb"\d+")


_BAR_END = re.compile(rb"\[(?:\d+:)?\d\d:\d\d<[^\[\]\n]{1,300}\](?=[A-Za-z\d\[(*=>-])")


def split_behind_bars(text: bytes) -> list[bytes]:
    """Split what was printed right behind a progress bar from it; empty for any other line."""
    ends = [bar.end() for bar in _BAR_END.finditer(text)] if b"<" in text else []
    return [text[begin:end] for begin, end in pairwise([0, *ends, len(text)])] if ends else []


def split_joined(text: bytes) -> list[bytes]:
    """Split lines that were joined without a newline."""
    if len(parts := [*_split_at_records(text)]) > 1 and all(map(_records().fullmatch, parts)):
        return parts  # without a search for seams, which would find none, from every character
    parts = _SEAM.split(text)
    if any(literal in text for literal in _ALIGNED_LITERALS):  # most lines are not searched for each label
        parts = [part for joined in parts for part in _ALIGNED_SEAM.split(joined)]
    return [part for joined in parts for part in _split_at_records(joined)]


@cache
def _records() -> re.Pattern[bytes]:
    """An expression for the lines of all programs that have a fixed width."""
    rows = (row for row in (*PROGRAM_LINES, *PROGRAM_FACTS) if row.has_fixed_width)
    return re.compile("|".join(source_of(row) for row in rows).encode())


def _split_at_records(text: bytes) -> Iterator[bytes]:
    """The lines of a fixed width, each behind its prefixes, and what is between them."""
    at = 0
    for record in _records().finditer(text):
        begin = _begin_of(text, at, record.start())
        if begin is None:
            yield text[at : at + read_prefixes(text[at:]).begin]
            at = record.end()
            continue
        if at < begin:
            yield text[at:begin]
        at = record.end() if text[record.end() :].strip() else len(text)
        yield text[begin:at]
    if at < len(text) or not text:
        yield text[at:]


def _begin_of(text: bytes, at: int, record: int) -> int | None:
    """Where the line of a record begins, with its prefixes; None if its digits may be another line's.

    Args:
        text: The lines.
        at: Where the record in front of it ends.
        record: Where the record begins, but for digits that may be another line's.
    """
    run = _RUN.match(text, record)
    end = at + len(text[at:record].rstrip(DIGITS)) if run else record
    digits = text[end : run.end()] if run else b""
    before = text[at:end]
    foreign = _foreign_digits(before, digits)
    if foreign is None:
        return None
    if foreign:
        return end + foreign
    if not before.strip() or (before.strip(b"-=") and read_prefixes(text[at:]).begin >= len(before)):
        return at
    if label := LABEL.search(text, max(at, end - _MAX_LABEL_BYTES), end):
        return label.start()
    return end


def _foreign_digits(before: bytes, digits: bytes) -> int | None:
    """How many of the digits in front of a step are of the text before them; None if that is not known."""
    for expression, count in _FIXED_DIGITS.items():
        if len(digits) > count and expression.search(before):
            return count
    number = _OPEN_NUMBER.search(before)
    if number is None:
        return 0
    if len(digits) > _MAX_DIGITS:
        return None
    begins = [begin for begin in range(1, len(digits)) if digits[begin] != ord("0")]
    if number["most"]:
        begins = [begin for begin in begins if int(digits[begin:]) <= int(digits[:begin])]
    else:
        begins = [begin for begin in begins if _STEP.fullmatch(digits, begin)]
    return begins[0] if len(begins) == 1 else None
