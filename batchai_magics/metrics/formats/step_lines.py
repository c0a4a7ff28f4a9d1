"""Parses uniform step lines fast: one search finds all lines of a block, one loop creates their records.

A launcher puts the same kind of prefix before each line, so its last two bytes (`prefix_end`) are known from
the previous step. Other step lines are parsed one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from batchai_magics.metrics.formats.line_format import EmbeddedFormat
from batchai_magics.metrics.measurement import Record, StepRecord, step_record
from batchai_magics.metrics.reading.block_cursor import BlockCursor
from batchai_magics.metrics.reading.line_prefixes import NO_PREFIX, LinePrefix, prefix_parser_for
from batchai_magics.metrics.reading.parser_state import MAX_DIGITS
from batchai_magics.metrics.reading.timestamps import wall_time

RATE = b"images/sec: "
NUMBERS = (
    rb"(\d+\.\d) \+/- (\d+\.\d) \(jitter = (\d+\.\d)\)[ \t]+(-?(?:nan|inf|\d+\.\d{3}))"
    rb"(?:[ \t]+(nan|\d\.\d{3})[ \t]+(nan|\d\.\d{3}))?"
)
"""What follows RATE in a step line: rate, uncertainty, jitter, loss, and the accuracies, if any."""

APPENDED_TIME = rb"[ \t]+(1\d{9}(?:\.\d{1,9})?)"  # added by some wrappers
_STEP = rb"([1-9]\d{0,%d})[ \t]+" % (MAX_DIGITS - 1)
_MAX_PREFIX_ENDS = 64
_StepLine = tuple[re.Match[bytes], LinePrefix]


def read_step_lines(cursor: BlockCursor, row: EmbeddedFormat) -> Iterable[Record]:
    """The records of a block in which every record matches `row`, the format of RATE."""
    text = b"\n" + cursor.data  # each line now has a newline before it; positions shift by one
    lines = _uniform_lines(cursor, text)
    return _records(cursor, lines) if len(lines) == text.count(RATE) else _read_runs(cursor, row, text, lines)


def _read_runs(
    cursor: BlockCursor, row: EmbeddedFormat, text: bytes, lines: Iterable[_StepLine]
) -> Iterator[Record]:
    """The records of uniform lines and, parsed one by one, of the lines between them."""
    done, run = 1, list[_StepLine]()
    for line in lines:
        begin, end = line[0].span()
        if text.find(RATE, done, begin) >= 0:
            yield from _records(cursor, run)
            yield from _read_singly(cursor, row, done - 1, begin - 1)
            run = []
        run.append(line)
        done = end
    yield from _records(cursor, run)
    yield from _read_singly(cursor, row, done - 1, len(cursor.data))


def prefix_end_of(before: bytes) -> bytes:
    """The last bytes of the text before a step."""
    return (b"\n" + before)[-2:]


def _uniform_lines(cursor: BlockCursor, text: bytes) -> list[_StepLine]:
    """The lines that consist only of a prefix with the known end and a record."""
    edge = cursor.cadence.prefix_end
    matches = _line_pattern(edge).finditer(text)
    if edge == b"\n":
        return [] if cursor.is_tagged else [(match, NO_PREFIX) for match in matches]
    lines, read = [], None
    for match in matches:
        step = match.start(1)
        before = text[text.rfind(b"\n", 0, step) + 1 : step]
        read = read or prefix_parser_for(before)
        prefix = read(before)
        if prefix is not None and (prefix.key is not None) == cursor.is_tagged:
            lines.append((match, prefix))
    return lines


@lru_cache(_MAX_PREFIX_ENDS)
def _line_pattern(edge: bytes) -> re.Pattern[bytes]:
    return re.compile(re.escape(edge) + _STEP + RATE + NUMBERS + rb"(?:" + APPENDED_TIME + rb")?[ \t]*(?=\n)")


def _records(cursor: BlockCursor, lines: Iterable[_StepLine]) -> list[StepRecord]:
    """Create the records of uniform lines in one loop, for speed."""
    records = []
    rank, offset, raw_ends, clock = cursor.stream_rank, cursor.offset, cursor.raw_ends, cursor.clock
    for match, prefix in lines:
        step, rate, uncertainty, jitter, loss, top_1, top_5, appended = match.groups()
        end = offset + match.end()
        if raw_ends is not None:
            end = raw_ends[end]
        record = (
            int(step),
            rank if prefix is NO_PREFIX else prefix.rank(rank),
            float(rate),
            float(uncertainty),
            float(jitter),
            float(loss),
            None if top_1 is None else float(top_1),
            None if top_5 is None else float(top_5),
            end,
            float(appended) if appended else wall_time(prefix.timestamp, clock.at(end) if clock else None),
        )
        records.append(step_record(record))
    cursor.cadence.observe_all(records)
    return records


def _read_singly(cursor: BlockCursor, row: EmbeddedFormat, begin: int, end: int) -> Iterator[Record]:
    cursor.consumed = begin
    for match in row.pattern.finditer(cursor.data, begin, end):
        record = row.read(cursor, match)
        cursor.consumed = match.end()
        if record is not None:
            yield record
