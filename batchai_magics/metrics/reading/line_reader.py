"""Reads lines by their plans: all lines of a skeleton at once, then what they tell each other, in order."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate

from batchai_magics.metrics.formats.format_table import LINE_TEXTS, formats_of, read_embedded
from batchai_magics.metrics.formats.line_format import read_line
from batchai_magics.metrics.grammar.line_interest import interest_in, may_matter
from batchai_magics.metrics.grammar.line_reading import Kind, LineReading
from batchai_magics.metrics.grammar.prefix_grammar import row_begin, row_rank
from batchai_magics.metrics.measurement import Measurement, Record, measurement
from batchai_magics.metrics.reading.bar_steps import BarCount, HeldDict, UnplacedDict
from batchai_magics.metrics.reading.block_cursor import BlockCursor
from batchai_magics.metrics.reading.line_context import Values
from batchai_magics.metrics.reading.line_plan import DIGITS, Groups, LinePlan
from batchai_magics.metrics.reading.parser_state import RankStates, StepCadence
from batchai_magics.metrics.reading.plan_cache import PlanCache, SkeletonPlans
from batchai_magics.metrics.reading.process_lines import LineSpan
from batchai_magics.metrics.reading.readings import LineGroup, Readings
from batchai_magics.metrics.reading.timestamps import (
    Timestamp,
    WriteClock,
    glog_month,
    json_timestamp,
    parse_glog_timestamp,
    wall_time,
)

MAX_TABLE_LINE_BYTES = 8 * 1024
_MANY_LINES = 4  # which one search reads faster than one for each
_NAMED_TIME = re.compile(rb"\b(?:timestamp|time|ts)=([\d.:TZ+-]{9,64})(?=[\s,;|]|\Z)")
_OBJECTS = (Kind.OBJECT, Kind.REDRAWN)
_UNKNOWN: SkeletonPlans | None = SkeletonPlans(b"")

Placed = tuple[int | None, float | None, Values]
"""The step, the epoch and the numbers of a line."""


@dataclass(slots=True)
class Lines:
    """Successive lines of a file without their ends; `ends` are offsets in the file.

    `rank` is that of all lines, None if they tell it; a tag may tell the rank and the time of each. `first`
    is the number of the first line in its file. `is_continued`: the first is the rest of a line that was too
    long. `has_end`: the last one has its newline. `raw` are the lines with their tags.
    """

    texts: list[bytes]
    ends: Sequence[int]
    rank: int | None
    first: int
    default_rank: int | None = None
    ranks: list[int | None] | None = None
    stamps: list[Timestamp | None] | None = None
    raw: list[bytes] | None = None
    is_continued: bool = False
    has_end: bool = True

    def rank_at(self, row: int) -> int | None:
        """The rank of a line, as far as its file or its tag tells it."""
        return self.rank if self.ranks is None else self.ranks[row]

    def stamp_at(self, row: int) -> Timestamp | None:
        """The time in a line's tag."""
        return None if self.stamps is None else self.stamps[row]

    def is_whole(self, row: int) -> bool:
        """Whether a line has its beginning and its end."""
        return not (self.is_continued and row == 0) and (self.has_end or row < len(self.texts) - 1)

    def slice(self, begin: int, end: int) -> Lines:
        """Some of the lines."""
        return replace(
            self,
            texts=self.texts[begin:end],
            ends=self.ends[begin:end],
            first=self.first + begin,
            ranks=self.ranks and self.ranks[begin:end],
            stamps=self.stamps and self.stamps[begin:end],
            raw=self.raw and self.raw[begin:end],
        )

    @property
    def span(self) -> LineSpan:
        """The lines, numbered as in their file."""
        return LineSpan(self.first, self.raw or self.texts, self.rank, self.default_rank)


@dataclass(slots=True, eq=False)
class _Group:
    """The lines of one plan in a block: their rows and the groups of each."""

    plan: LinePlan
    rows: list[int] = field(default_factory=list)
    found: list[Groups] = field(default_factory=list)


class _GroupInTurn:
    """The lines of a group while they are read in their turn, and the places of those kept."""

    __slots__ = ("found", "is_of_bar", "is_simple", "kept", "plan", "read", "values")

    def __init__(self, group: _Group, read: LineGroup) -> None:
        self.plan, self.found, self.read = group.plan, group.found, read
        self.is_simple, self.is_of_bar = _is_simple(group.plan), _is_of_bar(group.plan)
        self.values = [*zip(*read.values, strict=True)] or [()] * len(read.rows)
        self.kept: list[int] = []


class LineReader:
    """Reads the lines of one file, with all that its lines have told so far."""

    def __init__(self, states: RankStates, cadence: StepCadence) -> None:
        self.plans = PlanCache()
        self._states, self._cadence = states, cadence
        self._clock: WriteClock | None = None
        self.first_record_start: int | None = None  # on the last line that was read alone

    def read(self, lines: Lines, clock: WriteClock | None) -> Readings:
        """Read lines, the next of their file."""
        self._clock, self.first_record_start = clock, None
        block = _Block(lines, self.plans)
        is_uniform = self._is_uniform(block)
        readings = self._read_uniform(block) if is_uniform else self._read_in_turn(block)
        if self._states.lines.is_open:
            self._states.lines.end(lines.span, len(lines.texts))
        return readings

    def _is_uniform(self, block: _Block) -> bool:
        """Whether lines tell those below no more than a position."""
        states = self._states
        if block.single or states.has_table or states.held:
            return False
        if sum(group.plan.layout.clock.glog_at >= 0 for group in block.groups) > 1:
            return False  # the month of a line may tell the year of the next
        return all(_is_simple(group.plan) for group in block.groups) and _has_one_epoch(block.groups)

    def _read_uniform(self, block: _Block) -> Readings:
        """Read lines whose epochs are all their own, or all that of the lines above."""
        readings, last = Readings(), dict[int | None, tuple[int, int | None, float | None]]()
        for group in block.groups:
            read = self._group_of(group, block.lines)
            read.times = self._times_of(group.plan, group.found, read, block.lines)
            is_benchmark = group.plan.reading.kind is Kind.BENCHMARK
            if is_benchmark:
                self._cadence.observe_all(read.steps, has_accuracy=len(read.metrics) > 4)
            elif group.plan.reading.kind is Kind.STEP and group.plan.layout.epoch < 0:
                epochs = {rank: self._states.of(rank).context.epoch for rank in set(read.ranks)}
                read.epochs = [epochs[rank] for rank in read.ranks]
            readings.groups.append(read)
            if not is_benchmark:
                for rank, place in dict(zip(read.ranks, range(len(read.rows)), strict=True)).items():
                    known = last.get(rank)
                    if known is None or known[0] < read.rows[place]:
                        own = None if group.plan.layout.epoch < 0 else read.epochs[place]
                        last[rank] = read.rows[place], read.steps[place], own
        for rank, (_, step, epoch) in last.items():
            self._states.of(rank).context.note(step, epoch)
        return readings

    def _read_in_turn(self, block: _Block) -> Readings:
        """Read lines in their order, each with what those above have told."""
        readings, lines = Readings(), block.lines
        groups = [self._group_in_turn(group, lines) for group in block.groups]
        slots = {row: (group, place) for group in groups for place, row in enumerate(group.read.rows)}
        events, count, row = sorted({*slots, *block.single}), len(lines.texts), 0
        while row < count:
            if not self._states.has_table:
                place = bisect_left(events, row)
                if place == len(events):
                    break
                row = events[place]
            single, slot = block.single.get(row), slots.get(row)
            if not self._enter_table(lines, row, readings, single, slot):
                if slot:
                    self._enter(lines, *slot, readings)
                elif single:
                    readings.add(row, self._read_single(lines, row, single))
            row += 1
        readings.groups = [
            group.read.take(group.kept) for group in groups if group.kept and group.plan.metrics
        ]
        return readings

    def _group_in_turn(self, group: _Group, lines: Lines) -> _GroupInTurn:
        read = self._group_of(group, lines)
        if group.plan.layout.clock.glog_at < 0:  # of the others, lines above tell the year
            read.times = self._times_of(group.plan, group.found, read, lines)
        return _GroupInTurn(group, read)

    def _enter(self, lines: Lines, group: _GroupInTurn, place: int, readings: Readings) -> None:
        """Enter a line that has a plan, and keep its numbers."""
        plan, read, groups = group.plan, group.read, group.found[place]
        row, rank, kind = read.rows[place], read.ranks[place], plan.reading.kind
        step, epoch = read.steps[place], read.epochs[place]
        if kind is Kind.BENCHMARK:
            self._cadence.observe(step or 0, has_accuracy=len(plan.metrics) > 4)
        elif group.is_simple:
            if kind is Kind.STEP and self._states.held:
                readings.add(row, self._states.release(rank))
            context = self._states.of(rank).context
            context.note(step, epoch)
            epoch = context.epoch if epoch is None and kind is Kind.STEP else epoch
        else:
            numbers = [*zip(plan.metrics, group.values[place], strict=True)]
            before, placed = self._place(lines, row, plan, rank, (step, epoch, numbers))
            readings.add(row, before)
            if placed is None:
                return
            step, epoch, new = placed
            is_waiting = group.is_of_bar and not (step is None and read.times[place] is None)
            if new is not numbers or is_waiting:
                readings.add(row, self._records_at(lines, row, plan, groups, rank, placed))
                return
        if plan.layout.clock.glog_at >= 0:
            read.times[place] = self._seconds(lines, row, plan, groups, rank)
        read.steps[place], read.epochs[place] = step, epoch
        group.kept.append(place)

    def _group_of(self, group: _Group, lines: Lines) -> LineGroup:
        """The numbers of all lines of a plan, without times."""
        plan, rows = group.plan, group.rows
        layout, columns, count = plan.layout, [*zip(*group.found, strict=True)], len(group.rows)
        read = LineGroup(plan.metrics, plan.reading.kind, rows)
        read.steps = [None] * count if layout.step < 0 else [*map(layout.count_step, columns[layout.step])]
        read.epochs = (
            [None] * count if layout.epoch < 0 else [*map(layout.count_epoch, columns[layout.epoch])]
        )
        if lines.ranks or (layout.rank >= 0 and lines.rank is not None):
            read.ranks = [
                _rank_of(lines, row, plan, found) for row, found in zip(rows, group.found, strict=True)
            ]
        else:
            read.ranks = [lines.rank] * count if layout.rank < 0 else [*map(int, columns[layout.rank])]
        read.ends = [lines.ends[row] for row in rows]
        read.times = [None] * count
        read.values = [
            [*map(convert, columns[place])]
            for convert, place in zip(plan.converters, layout.numbers, strict=True)
        ]
        return read

    def _times_of(
        self, plan: LinePlan, found: Sequence[Groups], read: LineGroup, lines: Lines
    ) -> list[float | None]:
        """When the lines of a plan were printed."""
        if self._clock is None and lines.stamps is None and plan.layout.is_timeless:
            return read.times
        return [
            self._seconds(lines, row, plan, groups, rank)
            for row, groups, rank in zip(read.rows, found, read.ranks, strict=True)
        ]

    def _read_single(self, lines: Lines, row: int, plans: SkeletonPlans) -> list[Record]:
        """Read a line that code reads, or that is not whole."""
        text, is_whole = lines.texts[row], lines.is_whole(row)
        if plans.is_embedded:
            cursor = self.cursor(lines, row)
            embedded = read_embedded(cursor)
            if embedded is not None:
                self.first_record_start = cursor.first_record_start
                return embedded
        find = self.plans.grammar_of if plans.is_embedded else lambda line: self.plans.find(plans, line)
        found_plan = find(text)
        if plans.formats:
            records = read_line(self.cursor(lines, row), 0, formats_of(text))
            if records is not None:
                self._note_position(lines, row, records)
                return self._started(records)
        if plans.is_joined and (parts := self.plans.parts_of(text)):
            return self._started(self._read_parts(lines, row, parts))
        if found_plan is None or (lines.is_continued and row == 0):
            return []
        is_complete = is_whole or found_plan[0].reading.is_self_terminating
        return self._started(self._records(lines, row, *found_plan)) if is_complete else []

    def _started(self, records: list[Record]) -> list[Record]:
        if records:
            self.first_record_start = 0
        return records

    def _read_parts(self, lines: Lines, row: int, parts: Sequence[bytes]) -> list[Record]:
        """Read the lines that several processes wrote without a newline between."""
        records: list[Record] = []
        rank = lines.rank_at(row)
        for part in parts:
            plans = self.plans.of(part)
            found = plans and self.plans.find(plans, part)
            own = Lines([part], [lines.ends[row]], rank, lines.first + row, stamps=[lines.stamp_at(row)])
            if found:
                read = self._records(own, 0, *found)
            elif plans and plans.formats:
                read = self._read_single(own, 0, plans)
            else:
                continue
            records += read
        return records

    def _note_position(self, lines: Lines, row: int, records: list[Record]) -> None:
        """Let the lines below know the position of a line that code has read."""
        for record in records[-1:]:
            if isinstance(record, Measurement):
                self._states.of(record.rank).context.note(record.step, record.epoch)
        if records or not lines.is_whole(row):
            return
        held, self._states.held = self._states.held, {}
        found = self.plans.grammar_of(lines.texts[row])
        if found:
            self._records(lines, row, *found)
        self._states.held = held

    def cursor(self, lines: Lines, row: int) -> BlockCursor:
        """A cursor over one line."""
        text, end = lines.texts[row], lines.ends[row]
        is_ended = lines.has_end or row < len(lines.texts) - 1
        return BlockCursor(
            text + b"\n" * is_ended,
            lines.rank_at(row),
            end - len(text) - is_ended,
            end,
            self._cadence,
            self._states,
            is_continued=lines.is_continued and row == 0,
            clock=self._clock,
            tag_timestamp=lines.stamp_at(row),
        )

    def _enter_table(
        self,
        lines: Lines,
        row: int,
        readings: Readings,
        single: SkeletonPlans | None,
        slot: tuple[_GroupInTurn, int] | None,
    ) -> bool:
        """Read a line that may be one of a table; whether it is one."""
        is_opening = single is not None and single.opens_table
        if not (self._states.has_table or is_opening) or (single and single.is_embedded):
            return False
        if slot and slot[0].plan.reading.kind is Kind.BENCHMARK:
            return False
        text = lines.texts[row]
        if not lines.is_whole(row) or len(text) > MAX_TABLE_LINE_BYTES:
            return False
        rank = lines.rank_at(row)
        rank = row_rank(text) if rank is None else rank
        context = self._states.of(rank).context
        if not (context.table.is_open or is_opening):
            return False
        found = context.enter_row(text[row_begin(text) :], self._own_number(lines, row, rank))
        self._states.note_table()
        if found is None:
            return False
        step, epoch, numbers = found
        end = lines.ends[row]
        time = self._clock.at(end) if self._clock else None
        readings.add(
            row,
            [
                measurement((name, value, "", step, epoch, rank, end, time, phase))
                for name, value, phase in numbers
            ],
        )
        return True

    def _records(self, lines: Lines, row: int, plan: LinePlan, groups: Groups) -> list[Record]:
        """The numbers of a line, and those of lines above that waited for it."""
        layout, rank = plan.layout, _rank_of(lines, row, plan, groups)
        numbers = [*zip(plan.metrics, plan.values_of(groups), strict=True)]
        told = layout.step_of(groups), layout.epoch_of(groups), numbers
        before, placed = self._place(lines, row, plan, rank, told)
        return [*before, *self._records_at(lines, row, plan, groups, rank, placed)] if placed else before

    def _place(
        self, lines: Lines, row: int, plan: LinePlan, rank: int | None, told: Placed
    ) -> tuple[list[Record], Placed | None]:
        """The numbers that waited for a line, and its own, as far as something places them."""
        if plan.reading.kind in _OBJECTS:
            return [], self._enter_object(plan.reading.kind, rank, *told)
        return self._enter_line(lines, row, plan, rank, told)

    def _records_at(
        self, lines: Lines, row: int, plan: LinePlan, groups: Groups, rank: int | None, placed: Placed
    ) -> list[Record]:
        """The numbers of a line at their position; none yet if they wait for a bar."""
        step, epoch, numbers = placed
        seconds = self._seconds(lines, row, plan, groups, rank)
        end = lines.ends[row]
        records: list[Measurement] = [
            measurement((name, value, unit, step, epoch, rank, end, seconds, phase))
            for (name, unit, phase), value in numbers
        ]
        if _is_of_bar(plan):
            if step is not None:
                self._states.held[rank] = HeldDict(lines.first + row, records)
                return []
            self._note_unplaced(rank, epoch, seconds)
        return [*records]

    def _note_unplaced(self, rank: int | None, epoch: float | None, seconds: float | None) -> None:
        """Note a printed dict whose bar is in another file."""
        if seconds is not None:
            self._states.unplaced.append(UnplacedDict(rank, epoch, seconds))

    def _enter_object(
        self, kind: Kind, rank: int | None, step: int | None, epoch: float | None, numbers: Values
    ) -> Placed:
        """The position and the new numbers of a line that needs no context but that of its bar."""
        state = self._states.of(rank)
        if kind is Kind.REDRAWN:
            epoch, reported = state.epoch, state.reported
            state.enter_step(epoch, step)
            if reported is state.reported:
                numbers = [each for each in numbers if reported.get(each[0].name) != each[1]]
            state.reported.update([(metric.name, value) for metric, value in numbers])
        elif isinstance(epoch, float) and epoch.is_integer():
            epoch = int(epoch)
        if numbers:
            state.context.note(step, epoch)
        return step, epoch, numbers

    def _enter_line(
        self, lines: Lines, row: int, plan: LinePlan, rank: int | None, told: Placed
    ) -> tuple[list[Record], Placed | None]:
        """The numbers that waited for a line, and its own, as far as its context places them."""
        states, reading = self._states, plan.reading
        context, own_number = states.of(rank).context, self._own_number(lines, row, rank)
        position = context.enter(plan, own_number, *told)
        if rank is not None and context.is_of_block(own_number):
            states.lines.touch(rank, lines.first + row, lines.span, _label(lines, row, plan))
        before = self._released(lines, row, reading, rank)
        if position and position[0] is None and reading.is_dict and reading.step is None:
            position = (
                states.of(None).context.bar_step,
                *position[1:],
            )  # bars after a carriage return have no tag
        return before, position

    def _own_number(self, lines: Lines, row: int, rank: int | None) -> int:
        """The number of a line as the process with this rank counts its lines."""
        number = lines.first + row
        if rank is None or not self._states.lines.is_open:
            return number
        return self._states.lines.number(rank, number, lines.span)

    def _released(self, lines: Lines, row: int, reading: LineReading, rank: int | None) -> list[Record]:
        """The numbers of a dict that waited for this line, which may be its bar."""
        if not reading.is_bar:
            return self._states.release(rank) if self._states.held else []
        context = self._states.of(rank).context
        count = context.count_of(reading)
        if count is None:
            return []
        if self._clock and (written := self._clock.at(lines.ends[row] - 1)) is not None:
            self._states.bar_counts.append(BarCount(written, count, context.bar_total))
        return self._states.release(rank, lines.first + row, count, context.bar_total)

    def _seconds(
        self, lines: Lines, row: int, plan: LinePlan, groups: Groups, rank: int | None
    ) -> float | None:
        """When a line was printed."""
        timestamp = self._timestamp(lines, row, plan, groups, rank) or lines.stamp_at(row)
        if self._clock is None:
            return None if timestamp is None else timestamp.seconds
        return wall_time(timestamp, self._clock.at(lines.ends[row]))

    def _timestamp(
        self, lines: Lines, row: int, plan: LinePlan, groups: Groups, rank: int | None
    ) -> Timestamp | None:
        layout, text = plan.layout, lines.texts[row]
        if layout.seconds >= 0 and (seconds := _json_timestamp(groups[layout.seconds])):
            return seconds
        clock = layout.clock
        if clock.is_named and (found := _NAMED_TIME.search(text)):
            return _json_timestamp(found[1])
        if clock.stamp is not None:
            return clock.stamp.parse(text)
        if clock.glog_at < 0:
            return None
        prefix, state = text[clock.glog_at :], self._states.of(rank)
        year = None if state.year is None else state.year_for(glog_month(prefix))
        return parse_glog_timestamp(prefix, year)


class _Block:
    """Lines taken apart: those of each plan, and the single ones that are read in their turn."""

    def __init__(self, lines: Lines, cache: PlanCache) -> None:
        self.lines = lines
        self.single: dict[int, SkeletonPlans] = {}
        self.groups: list[_Group] = []
        self._cache = cache
        self._by_plan: dict[int, _Group] = {}
        for plans, rows in self._by_skeleton().items():
            self._add(plans, rows)
        self.groups = [*self._by_plan.values()]

    def _by_skeleton(self) -> dict[SkeletonPlans, list[int]]:
        """The rows of lines that may matter, by their skeletons."""
        texts, known = self.lines.texts, self._cache.known
        joined = b"\n".join(texts)
        skeletons = joined.translate(None, DIGITS).split(b"\n")
        found = [known.get(skeleton, _UNKNOWN) for skeleton in skeletons]
        rows: dict[SkeletonPlans, list[int]] = defaultdict(list)
        unknown: list[int] = []
        for row, plans in enumerate(found):
            if plans is not None:
                (unknown if plans is _UNKNOWN else rows[plans]).append(row)
        if unknown:
            for row in self._learn(joined, skeletons, unknown):
                plans = self._cache.of(texts[row])
                if plans is not None:
                    rows[plans].append(row)
        return rows

    def _learn(self, joined: bytes, skeletons: Sequence[bytes], unknown: Sequence[int]) -> list[int]:
        """The rows of new lines that may matter; the others are remembered if they repeat."""
        texts = self.lines.texts
        if 2 * len(unknown) < len(texts):
            lines = [texts[row] for row in unknown]
            ends = [*accumulate([len(line) + 1 for line in lines])]
            rows = [unknown[place] for place in interest_in(b"\n".join(lines), ends, LINE_TEXTS)]
        else:
            ends = [*accumulate([len(line) + 1 for line in texts])]
            new = {*unknown}
            rows = [row for row in interest_in(joined, ends, LINE_TEXTS) if row in new]
        silent = {skeletons[row] for row in unknown}
        if len(silent) <= _MANY_LINES or 2 * len(silent) < len(unknown):
            silent.difference_update([skeletons[row] for row in rows])
            self._cache.silence(each for each in silent if not may_matter(each))  # with any digits
        return rows

    def _add(self, plans: SkeletonPlans, rows: list[int]) -> None:
        lines = self.lines
        if plans.opens_table or not (lines.has_end and not lines.is_continued):
            self.single |= dict.fromkeys(rows, plans)
            return
        if len(rows) < _MANY_LINES or not (left := self._add_at_once(plans, rows)):
            left = rows if len(rows) < _MANY_LINES else []
        for row in left:
            self._add_line(plans, row)

    def _add_line(self, plans: SkeletonPlans, row: int) -> None:
        line = self.lines.texts[row]
        found = self._cache.find(plans, line)
        if found:
            group = self._group(found[0])
            group.rows.append(row)
            group.found.append(found[1])
        elif plans.has_code:
            self.single[row] = plans

    def _add_at_once(self, plans: SkeletonPlans, rows: list[int]) -> list[int]:
        """Read lines with one search if they are of one layout; gives the rows that are left."""
        texts = self.lines.texts
        self._add_line(plans, rows[0])
        rest = rows[1:]
        text = b"\n".join([texts[row] for row in rest])
        for layout in plans.layouts:
            found = layout.expression.findall(text)
            if len(found) != len(rest):
                continue
            if layout.is_of_one_plan:
                plan = layout.plans.get((), None)
                if plan:
                    group = self._group(plan)
                    group.rows += rest
                    group.found += found
                return []
            left = []
            for row, groups in zip(rest, found, strict=True):
                plan = layout.plan_of(groups, texts[row])
                if plan is None:
                    left.append(row)
                    continue
                group = self._group(plan)
                group.rows.append(row)
                group.found.append(groups)
            return left
        return rest

    def _group(self, plan: LinePlan) -> _Group:
        group = self._by_plan.get(id(plan))
        if group is None:
            group = self._by_plan[id(plan)] = _Group(plan)
        return group


@lru_cache(4096)
def _json_timestamp(text: bytes) -> Timestamp | None:
    return json_timestamp(text.decode())


def _is_simple(plan: LinePlan) -> bool:
    """Whether a line depends on nothing but the epoch above it."""
    reading = plan.reading
    if reading.kind is Kind.STEP:
        return plan.layout.step >= 0 and not reading.is_bar
    return reading.kind is Kind.OBJECT or reading.kind is Kind.BENCHMARK


def _is_of_bar(plan: LinePlan) -> bool:
    """Whether a line is a printed dict whose step only a bar tells."""
    reading = plan.reading
    return reading.is_dict and reading.step is None and reading.kind is Kind.STEP


def _has_one_epoch(groups: Sequence[_Group]) -> bool:
    """Whether no line takes its epoch from another line of these."""
    with_epoch = [group.plan.layout.epoch >= 0 for group in groups]
    is_carried = any(group.plan.reading.kind is Kind.STEP and group.plan.layout.epoch < 0 for group in groups)
    return not (is_carried and any(with_epoch))


def _rank_of(lines: Lines, row: int, plan: LinePlan, groups: Groups) -> int | None:
    rank = lines.rank_at(row)
    place = plan.layout.rank
    if place >= 0 and (rank is None or (plan.reading.kind is Kind.OBJECT and plan.reading.is_member)):
        return int(groups[place])
    return rank


def _label(lines: Lines, row: int, plan: LinePlan) -> tuple[bytes, bytes] | None:
    """The text around the rank in front of a line; None if a tag or the file tells the rank."""
    if lines.rank_at(row) is not None or plan.layout.rank < 0:
        return None
    text = lines.texts[row]
    found = plan.layout.expression.fullmatch(text)
    if found is None:
        return None
    begin, end = found.span(plan.layout.rank + 1)
    return text[:begin], text[end : end + 1]
