"""Reads the lines of a block with the grammar of step lines, and by their learned shapes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import cast

from batchai_magics.metrics.formats.line_format import LineFormat, plan_of_row
from batchai_magics.metrics.formats.line_plan import LinePlan, Role
from batchai_magics.metrics.grammar.line_interest import lines_of_interest
from batchai_magics.metrics.grammar.line_reading import Kind, LineReading
from batchai_magics.metrics.grammar.line_shapes import DIGITS, LineForm, LineShape, LineShapes
from batchai_magics.metrics.grammar.plain_lines import is_undecided
from batchai_magics.metrics.grammar.prefix_grammar import row_begin, row_rank
from batchai_magics.metrics.measurement import Measurement, Record, measurement
from batchai_magics.metrics.reading.bar_steps import BarCount, HeldDict, UnplacedDict
from batchai_magics.metrics.reading.block_cursor import BlockCursor
from batchai_magics.metrics.reading.line_prefixes import DIGITS_TO_ZERO, timestamp_slices
from batchai_magics.metrics.reading.timestamps import (
    GLOG,
    MIN_TIMESTAMP_BYTES,
    Timestamp,
    glog_month,
    json_timestamp,
    parse_glog_timestamp,
    wall_time,
)

MAX_LINE_BYTES = 8 * 1024
_MANY_LINES = 8  # of which to look for the interesting ones at once
_TIME = re.compile(rb"\b(?:timestamp|time|ts)=([\d.:TZ+-]{9,64})(?=[\s,;|]|\Z)")

LineReader = Callable[[], "list[Record]"]
OtherReading = tuple[Sequence[LineFormat], "list[Record] | None"]
OtherReader = Callable[[int, "Sequence[LineFormat] | None"], OtherReading]
"""Reads the line at a position with some formats; gives those that may match, and None if none does."""


class _Rows:
    """The lines of a block, their forms, and where they end."""

    __slots__ = ("cursor", "ends", "forms", "lines", "other", "rows")

    def __init__(self, cursor: BlockCursor, other: OtherReader) -> None:
        self.cursor, self.other = cursor, other
        self.forms = cursor.data.translate(DIGITS_TO_ZERO).split(b"\n")
        silent = cursor.shapes.silent_forms
        self.rows = [row for row, form in enumerate(self.forms) if form not in silent]
        self.lines = cursor.texts if self.rows else []
        self.ends = [*accumulate([len(line) + 1 for line in self.lines])]

    def prose(self, literals: tuple[bytes, ...]) -> set[int]:
        """The lines of unknown forms that cannot matter outside of a table; none if few lines are unknown."""
        plans, forms = self.cursor.shapes.plans, self.forms
        unknown = [row for row in self.rows if forms[row] not in plans]
        if len(unknown) < _MANY_LINES:
            return set()
        lines = [self.lines[row] for row in unknown]
        return {*unknown}.difference([unknown[index] for index in lines_of_interest(lines, literals)])

    def start(self, row: int) -> int:
        return self.ends[row - 1] if row else 0

    def fits(self, row: int, plan: LinePlan) -> bool:
        """Whether a line of a plan's form can be read with it."""
        return self.is_complete(row) and plan.form.fits(self.lines[row][plan.begin :])

    def is_complete(self, row: int) -> bool:
        """Whether the line has an end and a beginning."""
        return row < len(self.lines) - 1 and not (self.cursor.is_continued and not row)


def read_block(cursor: BlockCursor, other: OtherReader, literals: tuple[bytes, ...]) -> list[Record]:
    """The records of a block's lines. `literals` are those of the lines that `other` reads.

    `other` is asked once for each shape of lines, and for all lines of a shape if it understands the first.
    """
    block = _Rows(cursor, other)
    prose = block.prose(literals)
    plans, states, forms = cursor.shapes.plans, cursor.states, block.forms
    records: list[Record] = []
    for row in block.rows:
        plan = plans.get(forms[row])
        if plan is not None and not states.has_table and block.fits(row, plan):
            found = _read_planned(block, row, plan)
        elif row in prose and not states.has_table:
            continue
        else:
            found = _read_line(block, row)
        if found:
            if cursor.first_record_start is None:
                cursor.first_record_start = block.start(row)
            records += found
    return records


def read_lines(
    cursor: BlockCursor, other: OtherReader, taken: Collection[int]
) -> Iterator[tuple[int, LineReader]]:
    """The start of each line that may have records, except `taken`, and what reads it in its turn."""
    block = _Rows(cursor, other)
    for row in block.rows:
        start = block.start(row)
        if start not in taken:
            yield start, partial(_read_line, block, row)


def _read_line(block: _Rows, row: int) -> list[Record]:
    """Read a line of a form that has no plan, or within a table."""
    cursor, line = block.cursor, block.lines[row]
    shapes, key = cursor.shapes, line.translate(None, DIGITS)
    if key in shapes.silent:
        shapes.silence_form(block.forms[row])
        return []
    if cursor.states.has_table or shapes.may_open_table(key, line):
        found = _read_row(block, row)
        if found is not None:
            return found
    if key in shapes.elsewhere:
        return _read_elsewhere(block, row, key)
    plan = shapes.plans.get(block.forms[row])
    if plan is not None and block.fits(row, plan):
        return _read_planned(block, row, plan)
    if key in shapes.for_grammar:
        return _read_with_grammar(block, row, key) or []
    return _read_unknown(block, row, key)


def _read_row(block: _Rows, row: int) -> list[Record] | None:
    """Read a line that may be one of a table; None for any other line."""
    cursor, line = block.cursor, block.lines[row]
    if row == len(block.lines) - 1 or len(line) > MAX_LINE_BYTES:
        return None
    begin = cursor.skip_tag(block.start(row)) - block.start(row) if cursor.is_tagged else 0
    message = line[begin:]
    rank = cursor.rank if begin else cursor.stream_rank
    rank = row_rank(message) if rank is None else rank
    context = cursor.states.of(rank).context
    if not (context.table.is_open or cursor.shapes.may_open_table(line.translate(None, DIGITS), line)):
        return None
    number = _own_number(cursor, cursor.first_line + row, rank)
    found = context.enter_row(message[row_begin(message) :], number)
    cursor.states.note_table()
    if found is None:
        return None
    step, epoch, numbers = found
    end = cursor.offset_of(block.ends[row])
    time = cursor.clock.at(end) if cursor.clock else None
    return [
        measurement((name, value, "", step, epoch, rank, end, time, phase)) for name, value, phase in numbers
    ]


def _read_elsewhere(block: _Rows, row: int, key: bytes) -> list[Record]:
    """Read a line of a shape that a format understands; some only tell the position of later lines."""
    formats, found = block.other(block.start(row), block.cursor.shapes.elsewhere[key])
    if found:
        _remember_row_plan(block, row, formats)
    elif found is None:
        return _read_with_grammar(block, row, key) or []
    else:
        _note_position(block, row, key)
    return found


def _read_unknown(block: _Rows, row: int, key: bytes) -> list[Record]:
    """Ask the formats for a line, and the grammar if they do not understand it."""
    shapes = block.cursor.shapes
    formats, found = block.other(block.start(row), None)
    if found is not None:
        shapes.elsewhere[key] = formats
    if found:
        _remember_row_plan(block, row, formats)
        return found
    if found is not None:
        _note_position(block, row, key)
        return found
    records = _read_with_grammar(block, row, key)
    if records is not None:
        shapes.leave_to_grammar(key)
    elif not (shapes.may_open_table(key, block.lines[row]) or is_undecided(block.lines[row])):
        shapes.silence(key)
    return records or []


def _note_position(block: _Rows, row: int, key: bytes) -> None:
    """Let the grammar note where a line stands whose numbers a format has read; held ones wait further."""
    states = block.cursor.states
    held, states.held = states.held, {}
    _read_with_grammar(block, row, key)
    states.held = held


def _remember_row_plan(block: _Rows, row: int, formats: Sequence[LineFormat]) -> None:
    """Let lines be read by their form that a row of the format table has read, if it tells how."""
    cursor, line, start = block.cursor, block.lines[row], block.start(row)
    if not block.is_complete(row) or len(line) > MAX_LINE_BYTES:
        return
    begin = cursor.skip_tag(start) - start if cursor.is_tagged else 0
    plan = plan_of_row(line[begin:], formats)
    if plan is not None and not cursor.shapes.may_open_table(line.translate(None, DIGITS), line):
        cursor.shapes.remember_plan(block.forms[row], replace(plan, begin=begin))


def _read_with_grammar(block: _Rows, row: int, key: bytes) -> list[Record] | None:
    """The numbers of a line; None without any. Others of its form have a plan then, if they are alike."""
    cursor, line, start = block.cursor, block.lines[row], block.start(row)
    if not block.is_complete(row) or len(line) > MAX_LINE_BYTES:
        return []  # which tells nothing of its like
    begin = cursor.skip_tag(start) - start if cursor.is_tagged else 0
    found = cursor.shapes.find(line[begin:])
    if not found:
        return None
    plans = [_plan(form, begin, text) for form, text in found]
    is_plain = key not in cursor.shapes.elsewhere and not cursor.shapes.may_open_table(key, line)
    if len(plans) == 1 and is_plain:
        cursor.shapes.remember_plan(block.forms[row], plans[0])
    end, number = cursor.offset_of(block.ends[row]), cursor.first_line + row
    return [
        record
        for plan, (_, text) in zip(plans, found, strict=True)
        for record in _records(cursor, plan, text, end, number)
    ]


def plan_of(shapes: LineShapes, line: bytes) -> LinePlan | None:
    """The plan for a line of a known shape that is read the same wherever it stands; None for other lines."""
    key = line.translate(None, DIGITS)
    if shapes.may_open_table(key, line) or len(line) > MAX_LINE_BYTES:
        return None
    if key in shapes.elsewhere:
        return plan_of_row(line, shapes.elsewhere[key])
    if key not in shapes.known:
        return None
    form = shapes.form_of(line)
    return None if form is None else _plan(form, 0, line)


def _plan(form: LineForm, begin: int, text: bytes) -> LinePlan:
    end = form.prefix_end
    has_prefix = end >= MIN_TIMESTAMP_BYTES - 4
    timestamp = timestamp_slices(text[:end].translate(DIGITS_TO_ZERO), 0, end) if has_prefix else None
    has_glog = has_prefix and timestamp is None and GLOG.match(text) is not None
    return LinePlan(form, begin, timestamp, has_glog, _role(form.shape))


def _role(shape: LineShape) -> Role:
    reading = shape.reading
    if reading.kind is not Kind.STEP or reading.is_bar or shape.has_time or shape.has_decimal_commas:
        return Role.OTHER
    if reading.step is None and reading.epoch is not None and not reading.is_dict:
        return Role.OTHER  # it may be of the phase that the line above tells
    return Role.DICT if reading.is_dict and reading.step is None else Role.STEP


def _read_planned(block: _Rows, row: int, plan: LinePlan) -> list[Record]:
    cursor, text = block.cursor, block.lines[row]
    if plan.begin:
        cursor.skip_tag(block.start(row))
        text = text[plan.begin :]
    else:
        cursor.rank = cursor.stream_rank
    return _records(cursor, plan, text, cursor.offset_of(block.ends[row]), cursor.first_line + row)


def _records(cursor: BlockCursor, plan: LinePlan, text: bytes, end: int, number: int) -> list[Record]:
    form, rank = plan.form, cursor.rank
    if form.rank is not None and (rank is None or plan.role is Role.OBJECT):
        rank = int(text[form.rank])
    if plan.role is not Role.STEP:
        if plan.role is Role.OBJECT or plan.role is Role.BAR:
            return _row_records(cursor, plan, text, end, rank)
        return _dependent_records(cursor, plan, text, end, number, rank)
    context = cursor.states.of(rank).context
    step, epoch = form.step_of(text), form.epoch_of(text)
    context.note(step, epoch)
    if epoch is None:
        epoch = context.epoch
    numbers = form.values_of(text)
    seconds = _seconds(cursor, plan, text, end)
    records = [
        measurement((name, value, unit, step, epoch, rank, end, seconds, phase))
        for (name, unit, phase), value in numbers
    ]
    return [*cursor.states.release(rank), *records] if cursor.states.held else cast("list[Record]", records)


def _row_records(
    cursor: BlockCursor, plan: LinePlan, text: bytes, end: int, rank: int | None
) -> list[Record]:
    """The numbers of a line that a row of the format table understands."""
    form, state = plan.form, cursor.states.of(rank)
    step, epoch, numbers = form.step_of(text), form.epoch_of(text), form.values_of(text)
    if plan.role is Role.BAR:
        epoch = state.epoch
        state.enter_step(state.epoch, step)
        numbers = [each for each in numbers if state.reported.get(each[0].name) != each[1]]
        if not numbers:
            return []
        state.reported.update({metric.name: value for metric, value in numbers})
    elif isinstance(epoch, float) and epoch.is_integer():
        epoch = int(epoch)
    state.context.note(step, epoch)
    seconds = _seconds(cursor, plan, text, end)
    return [
        measurement((name, value, unit, step, epoch, rank, end, seconds, phase))
        for (name, unit, phase), value in numbers
    ]


def _dependent_records(
    cursor: BlockCursor, plan: LinePlan, text: bytes, end: int, number: int, rank: int | None
) -> list[Record]:
    """The numbers of a line that depend on lines around it, and those that waited for this line."""
    reading, states = plan.form.shape.reading, cursor.states
    context = states.of(rank).context
    own_number = _own_number(cursor, number, rank)
    position = context.enter(plan.form, text, own_number)
    if rank is not None and context.is_of_block(own_number):
        states.lines.touch(rank, number, cursor.span, _label(plan.form, text, cursor.rank))
    before = _released(cursor, reading, rank, end, number)
    if position is None:
        return before
    step, epoch, numbers = position
    is_unplaced = reading.is_dict and reading.step is None
    if step is None and is_unplaced:
        step = states.of(None).context.bar_step  # bars after a carriage return have no tag
    seconds = _seconds(cursor, plan, text, end)
    records = [
        Measurement(name, value, unit, step, epoch, rank, end, seconds, phase)
        for (name, unit, phase), value in numbers
    ]
    if is_unplaced and step is not None:
        states.held[rank] = HeldDict(number, records)
        return before
    if is_unplaced and seconds is not None:
        states.unplaced.append(UnplacedDict(rank, epoch, seconds))
    return [*before, *records]


def _own_number(cursor: BlockCursor, number: int, rank: int | None) -> int:
    """The number of a line as the process with this rank counts its lines."""
    lines = cursor.states.lines
    return lines.number(rank, number, cursor.span) if rank is not None and lines.is_open else number


def _label(form: LineForm, text: bytes, known_rank: int | None) -> tuple[bytes, bytes] | None:
    """The text around the rank in front of a line; None if a tag or the file tells the rank."""
    if known_rank is not None or form.rank is None:
        return None
    return text[: form.rank.start], text[form.rank.stop : form.rank.stop + 1]


def _released(
    cursor: BlockCursor, reading: LineReading, rank: int | None, end: int, number: int
) -> list[Record]:
    """The numbers of a dict that waited for this line, which may be its bar."""
    if not reading.is_bar:
        return cursor.states.release(rank)
    context = cursor.states.of(rank).context
    count = context.count_of(reading)
    if count is None:
        return []
    if cursor.clock and (written := cursor.clock.at(end - 1)) is not None:
        cursor.states.bar_counts.append(BarCount(written, count, context.bar_total))
    return cursor.states.release(rank, number, count, context.bar_total)


def _seconds(cursor: BlockCursor, plan: LinePlan, text: bytes, end: int) -> float | None:
    """When a line was printed."""
    timestamp = _timestamp(cursor, plan, text)
    if cursor.clock is None:
        return None if timestamp is None else timestamp.seconds
    return wall_time(timestamp, cursor.clock.at(end))


def _timestamp(cursor: BlockCursor, plan: LinePlan, text: bytes) -> Timestamp | None:
    if plan.form.seconds is not None:
        return json_timestamp(float(text[plan.form.seconds])) or cursor.tag_timestamp
    if plan.form.shape.has_time and (found := _TIME.search(text)):
        return json_timestamp(found[1].decode())
    if plan.timestamp is not None:
        return plan.timestamp.parse(text) or cursor.tag_timestamp
    if not plan.has_glog:
        return cursor.tag_timestamp
    prefix, state = text[: plan.form.prefix_end], cursor.states.of(cursor.rank)
    return parse_glog_timestamp(prefix, state.year_for(glog_month(prefix))) or cursor.tag_timestamp
