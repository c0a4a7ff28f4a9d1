"""Reads lines by their plans: all lines of a skeleton at once, then what they tell each other, in order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from operator import attrgetter, eq, itemgetter

from batchai_magics.metrics.formats.run_facts import facts_of
from batchai_magics.metrics.formats.tf_cnn_benchmarks import read_embedded
from batchai_magics.metrics.grammar.line_reading import LineKind, LineReading
from batchai_magics.metrics.grammar.prefix_grammar import row_begin, row_rank
from batchai_magics.metrics.measurement import LENGTH, Fact, Measurement, Record, measurement
from batchai_magics.metrics.reading.bar_steps import BarCount, HeldDict, UnplacedDict
from batchai_magics.metrics.reading.block_cursor import BlockCursor
from batchai_magics.metrics.reading.line_context import LineContext, Values
from batchai_magics.metrics.reading.line_groups import Block, PlanLines, rank_of
from batchai_magics.metrics.reading.line_plan import Groups, LinePlan, name_of_training
from batchai_magics.metrics.reading.lines import Lines
from batchai_magics.metrics.reading.parser_state import RankStates, StepCadence
from batchai_magics.metrics.reading.plan_cache import PlanCache, SkeletonPlans
from batchai_magics.metrics.reading.readings import Readings
from batchai_magics.metrics.reading.timestamps import (
    Timestamp,
    WriteClock,
    glog_month,
    parse_glog_timestamp,
    wall_time,
)

MAX_TABLE_LINE_BYTES = 8 * 1024
_MEMBER = re.compile(rb"[ \t]{2,}[\w./-]{1,40} ?[:=][ \t]*[^\s:=]")
_OBJECTS = (LineKind.OBJECT, LineKind.REDRAWN, LineKind.BELOW, LineKind.YEAR)

Placed = tuple[int | None, float | None, Values]
"""The step, the epoch and the numbers of a line."""


class LineReader:
    """Reads the lines of one file, whose rank may be known, with all that its lines have told so far."""

    def __init__(self, states: RankStates, cadence: StepCadence, rank: int | None) -> None:
        self.plans = PlanCache()
        self._rank = rank
        self._states, self._cadence = states, cadence
        self._clock: WriteClock | None = None
        self.first_record_start: int | None = None  # on the last line that was read alone
        self._last_text = b""  # of the lines read before
        self._lengths: list[Fact] = []  # that lines of the block tell

    def read(self, lines: Lines, clock: WriteClock | None) -> Readings:
        """Read lines, the next of their file."""
        self._clock, self.first_record_start = clock, None
        readings = Readings()
        if lines.texts:
            block = Block(lines, self.plans)
            self._read_groups(block, readings)
            self._tell_lengths(block, readings)
            self._last_text = lines.texts[-1]
        if self._states.lines.is_open:
            self._states.lines.end(lines)
        return readings

    def _read_groups(self, block: Block, readings: Readings) -> None:
        for group in block.groups:
            group.columns.times = group.times(block.lines, self._clock)
        if self._is_uniform(block):
            self._read_uniform(block)
        else:
            self._read_in_turn(block, readings)
        readings.groups = [
            group.columns.take(group.kept) for group in block.groups if group.kept and group.plan.metrics
        ]

    def _tell_lengths(self, block: Block, readings: Readings) -> None:
        """Tell how far the counters go with which numbers of training were kept, unless that was told."""
        for group in block.groups:
            if group.kept and group.plan.length_of:
                self._note_lengths(group)
        if self._lengths:
            ends = block.lines.ends
            told = list[tuple[int, list[Record]]]()
            for fact in sorted(self._lengths, key=attrgetter("offset")):
                total, _, name = fact.value.partition(" ")
                state, length = self._states.of(fact.rank), (name, total.encode())
                if state.is_news(length):
                    state.lengths.add(length)
                    told.append((ends.index(fact.offset), [fact]))
            readings.single[:0] = told  # each before its line
            self._lengths = []

    def _note_lengths(self, group: PlanLines) -> None:
        """Note the lengths on lines whose numbers were kept, each where it stands first."""
        columns, name = group.columns, group.plan.length_of
        totals, ranks = group.totals, columns.ranks
        are_same = totals.count(totals[0]) == len(totals) and ranks.count(ranks[0]) == len(ranks)
        lengths = {(ranks[0], totals[0])} if are_same else {*zip(ranks, totals, strict=True)}
        news = {length for length in lengths if self._states.of(length[0]).is_news((name, length[1]))}
        for place in group.kept if news else ():
            rank, total = ranks[place], totals[place]
            if (rank, total) in news:
                news.remove((rank, total))
                self._lengths.append(_length(name, total, rank, columns.ends[place], columns.times[place]))

    def _is_uniform(self, block: Block) -> bool:
        """Whether lines tell those below no more than a position."""
        states = self._states
        if block.single or states.has_table or states.held:
            return False
        if sum(group.plan.layout.clock.glog_at >= 0 for group in block.groups) > 1:
            return False  # the month of a line may tell the year of the next
        return all(group.plan.is_simple for group in block.groups) and _has_one_epoch(block.groups)

    def _read_uniform(self, block: Block) -> None:
        """Read lines whose epochs are all their own, or all that of the lines above, in any order."""
        last = [
            (group.rows[place], place, group, context)
            for group in block.groups
            for context, place in self._read_simple(block.lines, group, slice(0, len(group.rows)))
        ]
        for _, place, group, context in sorted(last, key=itemgetter(0)):
            self._note(block.lines, group, place, context)

    def _read_in_turn(self, block: Block, readings: Readings) -> None:
        """Read lines in their order; those of one plan that follow each other are read at once."""
        lines, owners = block.lines, block.owners()
        row, count = 0, len(owners)
        while row < count:
            owner = owners[row]
            if self._states.has_table or isinstance(owner, SkeletonPlans):
                self._enter_alone(lines, row, owner, readings)
                row += 1
            elif owner is None:
                row += 1
            elif owner.plan.is_member and (end := self._enter_members(lines.first, owners, row)) > row:
                row = end
            else:
                begin, row = owner.next_place, _run_end(owners, row)
                self._enter_run(lines, owner, slice(begin, owner.next_place), readings)

    def _enter_alone(
        self, lines: Lines, row: int, owner: PlanLines | SkeletonPlans | None, readings: Readings
    ) -> None:
        """Read a line that may be one of a table, or that code reads."""
        place = None
        if isinstance(owner, PlanLines):
            place, owner.next_place = owner.next_place, owner.next_place + 1
        if self._enter_table(lines, row, readings, owner):
            return
        if isinstance(owner, PlanLines) and place is not None:
            self._enter_run(lines, owner, slice(place, place + 1), readings)
        elif isinstance(owner, SkeletonPlans):
            readings.add(row, self._read_single(lines, row, owner))

    def _enter_run(self, lines: Lines, group: PlanLines, run: slice, readings: Readings) -> None:
        """Enter lines of one plan that follow each other, and keep their numbers.

        Lines that are not simple are of one rank.
        """
        if group.plan.is_simple:
            self._release_before(group, run, readings)
            for context, place in self._read_simple(lines, group, run):
                self._note(lines, group, place, context)
            return
        self._enter(lines, group, run.start, readings)
        rest = slice(run.start + 1, run.stop)
        if rest.start == rest.stop:
            return
        reading = group.plan.reading
        if reading.is_bar and reading.kind is LineKind.STEP and group.plan.layout.step >= 0:
            self._enter_bars(lines, group, rest, readings)
        elif group.plan.is_of_bar and self._bar_step(group.columns.ranks[run.start]) is None:
            self._enter_dicts(lines, group, rest)
        elif reading.kind is LineKind.REDRAWN:
            self._enter_redrawn(lines, group, rest, readings)
        else:
            for place in range(rest.start, rest.stop):
                self._enter(lines, group, place, readings)

    def _enter_members(
        self, first: int, owners: Sequence[PlanLines | SkeletonPlans | None], begin: int
    ) -> int:
        """Keep the numbers of lines right below others of their block, if no prefix tells ranks.

        Gives the row behind them; `first` is the number of the first row.
        """
        context, end = self._states.of(None).context, begin
        for row in range(begin, len(owners)) if not self._states.held else ():
            group = owners[row]
            if group is None:
                continue
            if not (isinstance(group, PlanLines) and group.plan.is_member):
                break
            place, columns = group.next_place, group.columns
            if columns.ranks[place] is not None or not context.enter_member(first + row):
                break
            columns.steps[place], columns.epochs[place] = context.step, context.epoch
            group.kept.append(place)
            group.next_place, end = place + 1, row + 1
        return end

    def _read_simple(self, lines: Lines, group: PlanLines, run: slice) -> Iterable[tuple[LineContext, int]]:
        """Keep the numbers of simple lines, below the epoch above them; gives each rank's last line."""
        plan, columns, places = group.plan, group.columns, _indices(run)
        self._keep(lines, group, places)
        if plan.reading.kind is LineKind.BENCHMARK:
            self._cadence.observe_all(columns.steps[run], has_accuracy=len(plan.metrics) > 4)
            return ()
        ranks = columns.ranks[run]
        is_one = ranks.count(ranks[0]) == len(ranks)
        last = {ranks[0]: places[-1]} if is_one else dict(zip(ranks, places, strict=True))
        contexts = [self._states.of(rank).context for rank in last]
        if plan.reading.kind is LineKind.STEP and plan.layout.epoch < 0:
            epochs = dict(zip(last, [context.epoch for context in contexts], strict=True))
            columns.epochs[run] = [epochs[ranks[0]]] * len(ranks) if is_one else [*map(epochs.get, ranks)]
        return zip(contexts, last.values(), strict=True)

    def _note(self, lines: Lines, group: PlanLines, place: int, context: LineContext) -> None:
        """Let the lines below know the position of a simple line."""
        columns = group.columns
        context.note(columns.steps[place], columns.epochs[place])
        self._note_step_line(lines.first + columns.rows[place], columns.ranks[place], group.plan)

    def _note_step_line(self, number: int, rank: int | None, plan: LinePlan) -> None:
        """Let the lines right below know a step line, if it bears no other rank than its file."""
        if rank == self._rank:
            context = self._states.of(rank).context
            context.step_line, context.step_plan = number, plan

    def _pass_unread(self, lines: Lines, row: int, context: LineContext) -> None:
        """Let a block below a step line go on behind one of its lines of which nothing is read."""
        above = lines.texts[row - 1] if row else self._last_text
        if context.step_line == lines.first + row - 2 and _MEMBER.match(above, row_begin(above)):
            context.step_line += 1

    def _keep(self, lines: Lines, group: PlanLines, places: Sequence[int]) -> None:
        """Keep the numbers of lines, with the times that lines above help to tell."""
        if group.plan.layout.clock.glog_at >= 0 and not self._is_year_unknown(lines, group):
            columns = group.columns
            for place in places:
                row, rank = columns.rows[place], columns.ranks[place]
                columns.times[place] = self._seconds(lines, row, group.plan, group.groups(place), rank)
        group.kept += places

    def _release_before(self, group: PlanLines, run: slice, readings: Readings) -> None:
        """Release the numbers of dicts that are held, in front of the next step line of their ranks."""
        held = self._states.held
        if not held or group.plan.reading.kind is not LineKind.STEP:
            return
        ranks = group.columns.ranks[run]
        for rank in [*held]:
            if rank in ranks:
                readings.add(group.rows[run.start + ranks.index(rank)], self._states.release(rank))

    def _enter(self, lines: Lines, group: PlanLines, place: int, readings: Readings) -> None:
        """Enter a line, and keep its numbers where its context places them."""
        plan, read, groups = group.plan, group.columns, group.groups(place)
        row, rank = read.rows[place], read.ranks[place]
        numbers = [*zip(plan.metrics, group.values(place), strict=True)]
        before, placed = self._enter_position(
            lines, row, plan, rank, (read.steps[place], read.epochs[place], numbers)
        )
        readings.add(row, before)
        if placed is None:
            return
        step, epoch, new = placed
        is_waiting = group.plan.is_of_bar and not (step is None and read.times[place] is None)
        if new is not numbers or is_waiting:
            readings.add(row, self._records_at(lines, row, plan, groups, rank, placed))
            return
        read.steps[place], read.epochs[place] = step, epoch
        self._keep(lines, group, [place])

    def _enter_bars(self, lines: Lines, group: PlanLines, run: slice, readings: Readings) -> None:
        """Enter bars that are drawn below another one, and keep the numbers that are new."""
        plan, columns, rank = group.plan, group.columns, group.columns.ranks[run.start]
        context = self._states.of(rank).context
        if plan.layout.epoch < 0:
            columns.epochs[run] = [context.epoch] * (run.stop - run.start)
        if self._clock:
            for place in _indices(run):
                self._note_count(columns.ends[place], columns.steps[place], context.bar_total)
        positions = zip(columns.epochs[run], columns.steps[run], strict=True)
        drawn = [*zip(*(column[run.start - 1 : run.stop] for column in columns.values), strict=True)]
        again = context.drawn_again(plan, positions, drawn)
        for index, new in again.items():
            if new:
                place = run.start + index
                row, position = group.rows[place], (columns.steps[place], columns.epochs[place])
                placed = (*position, new)
                readings.add(row, self._records_at(lines, row, plan, group.groups(place), rank, placed))
        kept = (
            [place for place in _indices(run) if place - run.start not in again] if again else _indices(run)
        )
        self._keep(lines, group, kept)
        last = run.stop - 1
        row = group.rows[last]
        context.note(columns.steps[last], columns.epochs[last])
        context.heading_line = self._own_number(lines, row, rank)
        self._touch(lines, row, plan, rank, context.heading_line)

    def _enter_dicts(self, lines: Lines, group: PlanLines, run: slice) -> None:
        """Enter printed dicts that no bar places."""
        columns, rank = group.columns, group.columns.ranks[run.start]
        if group.plan.layout.epoch < 0:
            columns.epochs[run] = [self._states.of(rank).context.epoch] * (run.stop - run.start)
        for epoch, time in zip(columns.epochs[run], columns.times[run], strict=True):
            self._note_unplaced(rank, epoch, time)
        self._keep(lines, group, _indices(run))

    def _enter_redrawn(self, lines: Lines, group: PlanLines, run: slice, readings: Readings) -> None:
        """Enter bars of Keras, and keep the numbers that are new at their step."""
        plan, columns = group.plan, group.columns
        state = self._states.of(columns.ranks[run.start])
        if plan.layout.epoch < 0:
            columns.epochs[run] = [state.context.epoch] * (run.stop - run.start)
        steps, epochs = [state.step, *columns.steps[run]], [state.epoch, *columns.epochs[run]]
        again = [
            run.start + index
            for index, is_same in enumerate(map(eq, steps, steps[1:]))
            if is_same and epochs[index] == epochs[index + 1]
        ]
        begin = run.start
        for end in (*again, run.stop):
            if begin < end:
                self._keep(lines, group, range(begin, end))
                state.epoch, state.step = columns.epochs[end - 1], columns.steps[end - 1]
                state.report([metric.name for metric in plan.metrics], group.values(end - 1))
            if end < run.stop:
                self._enter(lines, group, end, readings)
            begin = end + 1

    def _bar_step(self, rank: int | None) -> int | None:
        """The count of the bar of a rank; bars after a carriage return have no tag."""
        own = self._states.of(rank).context.bar_step
        return self._states.of(None).context.bar_step if own is None else own

    def _is_year_unknown(self, lines: Lines, group: PlanLines) -> bool:
        """Whether nothing tells when lines in glog's form were printed."""
        layout = group.plan.layout
        has_other_time = layout.seconds >= 0 or layout.clock.is_named
        if self._clock or lines.stamps or layout.clock.has_glog_year or has_other_time:
            return False
        return all(self._states.of(rank).year is None for rank in {*group.columns.ranks})

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
        facts = plans.tells_facts and is_whole and facts_of(text, lines.rank_at(row), lines.ends[row])
        records: list[Record] = [*(facts or ())]
        found_plan = find(text)
        if plans.is_joined and (parts := self.plans.parts_of(text)):
            records += self._read_parts(lines, row, parts)
        elif found_plan and not (lines.is_continued and row == 0):
            is_complete = is_whole or found_plan[0].reading.is_self_terminating
            records += self._records(lines, row, *found_plan) if is_complete else []
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
                records += self._records(own, 0, *found)
        return records

    def cursor(self, lines: Lines, row: int) -> BlockCursor:
        """A cursor over one line."""
        text, end = lines.texts[row], lines.ends[row]
        is_ended = lines.has_end or row < len(lines.texts) - 1
        return BlockCursor(
            text + b"\n" * is_ended,
            lines.rank_at(row),
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
        owner: PlanLines | SkeletonPlans | None,
    ) -> bool:
        """Read a line that may be one of a table; whether it is one."""
        is_opening = isinstance(owner, SkeletonPlans) and owner.opens_table
        if not (self._states.has_table or is_opening):
            return False
        if isinstance(owner, PlanLines):
            if owner.plan.reading.kind is LineKind.BENCHMARK:
                return False
        elif owner and owner.is_embedded:
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
        layout, rank = plan.layout, rank_of(lines, row, plan, groups)
        numbers = [*zip(plan.metrics, plan.values_of(groups), strict=True)]
        told = layout.step_of(groups), layout.epoch_of(groups), numbers
        before, placed = self._enter_position(lines, row, plan, rank, told)
        return [*before, *self._records_at(lines, row, plan, groups, rank, placed)] if placed else before

    def _enter_position(
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
        if plan.length_of and (name := name_of_training(metric for metric, _ in numbers)):
            total = groups[plan.layout.total]
            if self._states.of(rank).is_news((name, total)):
                self._lengths.append(_length(name, total, rank, end, seconds))
        if plan.is_of_bar:
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
        self, kind: LineKind, rank: int | None, step: int | None, epoch: float | None, numbers: Values
    ) -> Placed:
        """The position and the new numbers of a line that needs no context but that of its bar."""
        state = self._states.of(rank)
        if kind is LineKind.YEAR:
            (_, year), (_, month) = numbers
            state.year, state.month = int(year), int(month)
            return None, None, []
        if kind is LineKind.BELOW:
            step, epoch = state.context.step, state.context.epoch
        elif kind is LineKind.REDRAWN:
            epoch, reported = state.context.epoch if epoch is None else epoch, state.reported
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
        if reading.is_member:
            self._pass_unread(lines, row, context)
        position = context.enter(plan, own_number, *told)
        if reading.kind is LineKind.STEP and not (reading.is_bar or plan.is_of_bar):
            self._note_step_line(lines.first + row, rank, plan)
        self._touch(lines, row, plan, rank, own_number)
        before = self._released(lines, row, reading, rank)
        if position and position[0] is None and reading.is_dict and reading.step is None:
            position = (
                states.of(None).context.bar_step,
                *position[1:],
            )  # bars after a carriage return have no tag
        return before, position

    def _note_count(self, end: int, count: int | None, total: float) -> None:
        """Note what a bar showed when it was drawn."""
        written = self._clock.at(end - 1) if self._clock else None
        if written is not None and count is not None:
            self._states.bar_counts.append(BarCount(written, count, total))

    def _touch(self, lines: Lines, row: int, plan: LinePlan, rank: int | None, own_number: int) -> None:
        """Note a line that belongs to the block below a heading of its rank."""
        if rank is not None and self._states.of(rank).context.is_of_block(own_number):
            self._states.lines.touch(rank, lines.first + row, lines, _label(lines, row, plan))

    def _own_number(self, lines: Lines, row: int, rank: int | None) -> int:
        """The number of a line as the process with this rank counts its lines."""
        number = lines.first + row
        if rank is None or not self._states.lines.is_open:
            return number
        return self._states.lines.number(rank, number, lines)

    def _released(self, lines: Lines, row: int, reading: LineReading, rank: int | None) -> list[Record]:
        """The numbers of a dict that waited for this line, which may be its bar."""
        if not reading.is_bar:
            return self._states.release(rank) if self._states.held else []
        context = self._states.of(rank).context
        count = context.count_of(reading)
        if count is None:
            return []
        self._note_count(lines.ends[row], count, context.bar_total)
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
        alone = PlanLines(plan)
        alone.add_line(row, groups)
        clock, text = plan.layout.clock, lines.texts[row]
        if (found := alone.timestamps(lines)[0]) or clock.glog_at < 0:
            return found
        prefix, state = text[clock.glog_at :], self._states.of(rank)
        year = None if state.year is None else state.year_for(glog_month(prefix))
        return parse_glog_timestamp(prefix, year)


def _length(name: str, total: bytes, rank: int | None, end: int, seconds: float | None) -> Fact:
    return Fact(LENGTH, f"{total.decode()} {name}", rank, end, seconds)


def _run_end(owners: Sequence[PlanLines | SkeletonPlans | None], row: int) -> int:
    """The row behind the lines of one plan that follow each other, from this row; they are taken."""
    owner, count = owners[row], len(owners)
    if not isinstance(owner, PlanLines):
        return row + 1
    ranks, begin = owner.columns.ranks, owner.next_place
    place = begin
    if not begin and len(owner.rows) == count and (owner.plan.is_simple or ranks.count(ranks[0]) == count):
        owner.next_place = count
        return count
    while row < count and (owners[row] is owner or owners[row] is None):
        if owners[row] is owner:
            if not owner.plan.is_simple and ranks[place] != ranks[begin]:
                break
            place += 1
        row += 1
    owner.next_place = place
    return row


def _indices(run: slice) -> range:
    return range(run.start, run.stop)


def _has_one_epoch(groups: Sequence[PlanLines]) -> bool:
    """Whether no line takes its epoch from another line of these."""
    with_epoch = [group.plan.layout.epoch >= 0 for group in groups]
    is_carried = any(
        group.plan.reading.kind is LineKind.STEP and group.plan.layout.epoch < 0 for group in groups
    )
    return not (is_carried and any(with_epoch))


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
