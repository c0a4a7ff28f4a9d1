"""Reads the lines of a block with the grammar of step lines, and by their learned shapes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from batchai_magics.metrics.grammar.line_shapes import DIGITS, LineShape
from batchai_magics.metrics.grammar.prefix_grammar import row_begin, row_rank
from batchai_magics.metrics.reading.block_cursor import BlockCursor
from batchai_magics.metrics.reading.line_prefixes import DIGITS_TO_ZERO, TimestampSlices, timestamp_slices
from batchai_magics.metrics.reading.timestamps import (
    MIN_TIMESTAMP_BYTES,
    Timestamp,
    glog_month,
    json_timestamp,
    parse_glog_timestamp,
    wall_time,
)
from batchai_magics.metrics.record import Record, value_record

if TYPE_CHECKING:
    from batchai_magics.metrics.formats.line_format import LineFormat

MAX_LINE_BYTES = 8 * 1024
_TIME = re.compile(rb"\b(?:timestamp|time|ts)=([\d.:TZ+-]{9,64})(?=[\s,;|]|\Z)")

LineReader = Callable[[], "list[Record]"]
OtherReading = tuple["Sequence[LineFormat]", "list[Record] | None"]
OtherReader = Callable[[int, "Sequence[LineFormat] | None"], OtherReading]
"""Reads the line at a position with some formats; gives those that may match, and None if none does."""


def read_lines(
    cursor: BlockCursor, other: OtherReader, taken: Collection[int] = ()
) -> Iterator[tuple[int, LineReader]]:
    """The start of each line of a block that may have records, except `taken`, and what reads it in its turn.

    `other` is asked once for each shape of lines, and for all lines of a shape if it understands the first.
    """
    data, shapes = cursor.data, cursor.shapes
    keys = data.translate(None, DIGITS).split(b"\n")
    silent = shapes.silent
    rows = [row for row, key in enumerate(keys) if key not in silent]
    if not rows:
        return iter(())
    lines = data.split(b"\n")
    ends = list(accumulate(len(line) + 1 for line in lines))
    return _read_rows(cursor, other, _Rows(keys, lines, ends, taken), rows)


class _Rows:
    """The lines of a block, their keys, and where they end."""

    __slots__ = ("ends", "keys", "lines", "taken")

    def __init__(
        self, keys: list[bytes], lines: list[bytes], ends: list[int], taken: Collection[int]
    ) -> None:
        self.keys, self.lines, self.ends, self.taken = keys, lines, ends, taken

    def start(self, row: int) -> int:
        return self.ends[row - 1] if row else 0


def _read_rows(
    cursor: BlockCursor, other: OtherReader, block: _Rows, rows: list[int]
) -> Iterator[tuple[int, LineReader]]:
    shapes = cursor.shapes
    known, elsewhere = shapes.known, shapes.elsewhere
    for row in rows:
        key, start = block.keys[row], block.start(row)
        if start in block.taken:
            continue
        if cursor.states.has_table or shapes.may_open_table(key, block.lines[row]):
            yield start, partial(_read_row, cursor, other, block, row)
        elif key in elsewhere:
            yield start, partial(_read_elsewhere, cursor, other, block, row)
        elif key in known:
            yield start, partial(_read_known, cursor, block, row)
        else:
            yield start, partial(_read_unknown, cursor, other, block, row)


def _read_row(cursor: BlockCursor, other: OtherReader, block: _Rows, row: int) -> list[Record]:
    """Read a line that may be one of a table; if it is none, by its shape."""
    line = block.lines[row]
    if row < len(block.lines) - 1 and len(line) <= MAX_LINE_BYTES:
        begin = cursor.skip_tag(block.start(row)) - block.start(row) if cursor.is_tagged else 0
        message = line[begin:]
        rank = cursor.rank if begin else cursor.stream_rank
        rank = row_rank(message) if rank is None else rank
        context = cursor.states.of(rank).context
        if context.table.is_open or cursor.shapes.may_open_table(block.keys[row], block.lines[row]):
            found = context.enter_row(message[row_begin(message) :])
            cursor.states.note_table()
            if found is not None:
                step, epoch, numbers = found
                end = cursor.offset_of(block.ends[row])
                time = cursor.clock.at(end) if cursor.clock else None
                return [
                    value_record((name, value, "", step, epoch, rank, end, time, phase))
                    for name, value, phase in numbers
                ]
    key = block.keys[row]
    if key in cursor.shapes.elsewhere:
        return _read_elsewhere(cursor, other, block, row)
    if key in cursor.shapes.known:
        return _read_known(cursor, block, row)
    return _read_unknown(cursor, other, block, row)


def _read_elsewhere(cursor: BlockCursor, other: OtherReader, block: _Rows, row: int) -> list[Record]:
    """Read a line of a shape that a format understands; some only tell the position of later lines."""
    _, found = other(block.start(row), cursor.shapes.elsewhere[block.keys[row]])
    if not found:
        records = read_grammar_line(cursor, block.start(row), cursor.first_line + row)
        return records or [] if found is None else []
    return found


def _read_unknown(cursor: BlockCursor, other: OtherReader, block: _Rows, row: int) -> list[Record]:
    """Ask the formats for a line, and the grammar if they do not understand it."""
    formats, found = other(block.start(row), None)
    if found is not None:
        cursor.shapes.elsewhere[block.keys[row]] = formats
    if found:
        return found
    records = read_grammar_line(cursor, block.start(row), cursor.first_line + row)
    if (
        found is None
        and records is None
        and not cursor.shapes.may_open_table(block.keys[row], block.lines[row])
    ):
        cursor.shapes.silence(block.keys[row])
    return records or [] if found is None else []


def _read_known(cursor: BlockCursor, block: _Rows, row: int) -> list[Record]:
    if row == len(block.lines) - 1:
        return []  # it is not complete
    line = block.lines[row]
    for shape in cursor.shapes.known[block.keys[row]]:
        match = shape.expression.fullmatch(line)
        if match:
            cursor.rank = cursor.stream_rank
            return _records(cursor, shape, match, cursor.offset_of(block.ends[row]), cursor.first_line + row)
    return read_grammar_line(cursor, block.start(row), cursor.first_line + row) or []


def read_grammar_line(cursor: BlockCursor, start: int, number: int) -> list[Record] | None:
    """The numbers of the complete line that starts here, the `number`th of its file; None without any."""
    data = cursor.data
    newline = data.find(b"\n", start)
    if newline < 0 or newline - start > MAX_LINE_BYTES or (cursor.is_continued and not start):
        return []  # which tells nothing of its like
    begin = cursor.skip_tag(start) if cursor.is_tagged else start
    found = cursor.shapes.find(data[begin:newline])
    if not found:
        return None
    end = cursor.end_offset(start)
    return [record for shape, match in found for record in _records(cursor, shape, match, end, number)]


def _records(
    cursor: BlockCursor, shape: LineShape, match: re.Match[bytes], end: int, number: int
) -> list[Record]:
    rank = cursor.rank
    if rank is None and shape.has_rank:
        rank = int(match[shape.groups[shape.has_step + shape.has_epoch]])
    position = cursor.states.of(rank).context.enter(shape, match, number)
    if position is None:
        return []
    step, epoch, numbers = position
    if step is None and shape.reading.is_dict:
        step = cursor.states.of(None).context.bar_step  # bars after a carriage return have no tag
    time = _time(cursor, shape, match)
    seconds = wall_time(time, cursor.clock.at(end) if cursor.clock else None)
    return [
        value_record((name, value, unit, step, epoch, rank, end, seconds, phase))
        for (name, unit, phase), value in numbers
    ]


def _time(cursor: BlockCursor, shape: LineShape, match: re.Match[bytes]) -> Timestamp | None:
    if shape.has_time and (found := _TIME.search(match.string)):
        return json_timestamp(found[1].decode())
    end = match.end(shape.groups[-1])
    if end < MIN_TIMESTAMP_BYTES - 4:
        return cursor.tag_timestamp
    slices = cursor.shapes.timestamps.get((shape, end), 0)
    prefix = match.string[:end]
    if slices == 0:
        slices = timestamp_slices(prefix.translate(DIGITS_TO_ZERO), 0, end)
        cursor.shapes.timestamps[shape, end] = slices
    if isinstance(slices, TimestampSlices):
        return slices.parse(prefix) or cursor.tag_timestamp
    state = cursor.states.of(cursor.rank)
    return parse_glog_timestamp(prefix, state.year_for(glog_month(prefix))) or cursor.tag_timestamp
