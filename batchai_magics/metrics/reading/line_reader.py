"""Reads the lines of a log, each of which becomes measurements in four steps.

1. The *plan* of a line, from `PlanCache`, names its metrics and tells which groups of an expression are its
   step, its epoch and its numbers. The grammar makes it of the first line; all lines with the same text and
   other digits share it.
2. `Block` searches for all lines of a plan at once. They are a `PlanLines`, with the numbers as columns.
3. The lines are *placed* in their order: a line without a step or an epoch has that of the lines above. The
   rules are in `LineContext`, which knows what its process has printed. As they hardly ever look at a number,
   `PlacementCache` applies them once to each plan in each state of a context.
4. The lines whose numbers are kept become a `MeasurementTable`, or records if they are few.

Rows of tables are found before step 2, by `TableReader`. Lines that several processes wrote at once,
and those without a plan, are read one by one.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, compress, groupby, pairwise, product
from operator import attrgetter, eq, itemgetter
from typing import TypeVar, cast

from batchai_magics.metrics.grammar.parsed_line import LineKind
from batchai_magics.metrics.grammar.prefix_grammar import row_begin
from batchai_magics.metrics.measurement import (
    ATTEMPT,
    LENGTH,
    Fact,
    Measurement,
    MetricName,
    Record,
    measurement,
)
from batchai_magics.metrics.measurement_table import MeasurementTable
from batchai_magics.metrics.reading.bar_steps import BarCount, HeldDict, UnplacedDict
from batchai_magics.metrics.reading.line_context import (
    LineContext,
    Placed,
    RankContexts,
    Values,
)
from batchai_magics.metrics.reading.line_groups import Block, PlanLines, ranks_of
from batchai_magics.metrics.reading.line_placement import Above, LinePlacement, PlacedState, PlacementCache
from batchai_magics.metrics.reading.line_plan import Groups, LinePlan, name_of_training
from batchai_magics.metrics.reading.line_splitter import Lines
from batchai_magics.metrics.reading.plan_cache import PlanCache, SkeletonPlans
from batchai_magics.metrics.reading.prefix_patterns import printed_time
from batchai_magics.metrics.reading.run_facts import facts_of
from batchai_magics.metrics.reading.table_reader import TableReader
from batchai_magics.metrics.timestamps import (
    WriteClock,
    parse_glog_timestamp,
    wall_time,
)

_MANY_LINES = 512  # from which on the numbers of a block are kept as columns
_Number = TypeVar("_Number")
_MEMBER = re.compile(rb"[ \t]{2,}[\w./-]{1,40} ?[:=][ \t]*[^\s:=]")
_MAY_GO_ON = re.compile(rb"[\d\s.na]*")  # the rest of a line whose last number is cut

Owner = PlanLines | SkeletonPlans | None
"""The group of a line, or its skeleton if it is read alone; None for a line with nothing to read."""


class LineReader:
    """Reads the lines of one file in the contexts of its ranks; `rank` is the file's if it is known."""

    def __init__(self, contexts: RankContexts, rank: int | None) -> None:
        self.plans = PlanCache()
        self._contexts, self._placements, self._tables = contexts, PlacementCache(), TableReader(contexts)
        self._lines = Lines([], (), rank, 0)  # of the block
        self._clock: WriteClock | None = None
        self._single: list[tuple[int, Sequence[Record]]] = []  # records by the rows of their lines
        self._facts: list[tuple[int, Fact]] = []  # by the rows of their lines
        self._lengths: list[Fact] = []  # on lines of the block
        self._bar_counts: list[tuple[int, BarCount]] = []  # by the ends of their lines
        self._unplaced: list[tuple[int, UnplacedDict]] = []
        self._last_text = b""  # of the lines read before

    def read(self, lines: Lines, clock: WriteClock | None) -> Collection[Record]:
        """Read the next lines of the file."""
        self._lines, self._clock = lines, clock
        self._single, self._facts, self._lengths = [], [], []
        self._bar_counts, self._unplaced = [], []
        if not lines.texts:
            return ()
        rows = self._tables.begin(lines, clock)
        block = Block(lines, self.plans, clock, rows)
        if (row := block.rank_label) is not None:  # numbers in front are ranks from here on
            before = self.read(lines.slice(0, row), clock)
            self.plans = PlanCache(are_labels_ranks=True)
            rest = self.read(lines.slice(row, len(lines.texts)), clock)
            return [*before, *rest] if before else rest
        self._facts = facts_of(lines, block.fact_rows, clock)
        if attempts := {row for row, fact in self._facts if fact.key == ATTEMPT}:
            if attempts != {0}:
                parts = pairwise(sorted({0, *attempts, len(lines.texts)}))
                return [record for part in parts for record in self.read(lines.slice(*part), clock)]
            # its processes print from their beginnings
            self._single += [(0, [record]) for record in self._contexts.begin_attempt()]
        for row, plan in sorted(block.labels, key=itemgetter(0)):
            self._learn_label(lines, row, plan)
        self._enter_block(block)
        by_end = itemgetter(0)  # in file order, unlike those of several ranks
        self._contexts.bar_counts += [count for _, count in sorted(self._bar_counts, key=by_end)]
        self._contexts.unplaced += [unplaced for _, unplaced in sorted(self._unplaced, key=by_end)]
        self._last_text = lines.texts[-1]
        if self._contexts.lines.is_open:
            self._contexts.lines.end(lines)
        return self._records_of(block.groups)

    def _enter_block(self, block: Block) -> None:
        """Place the lines of a block, and keep their numbers."""
        if self._is_uniform(block):  # the lines may be read in any order
            last = [
                (group.rows[index], index, group, context)
                for group in block.groups
                for context, index in self._read_simple(group, slice(0, len(group.rows)))
            ]
            for _, index, group, context in sorted(last, key=itemgetter(0)):
                self._note(group, index, context)
        elif bars := self._bars_by_rank(block):
            for group, indices in bars:
                self._enter_bars(group, indices)
            for group in block.groups:
                group.kept_indices.sort()
        elif self._is_run(block):
            self._enter_run(block.groups[0], slice(0, len(block.groups[0].rows)))
        else:
            block.separate_ranks()
            self._read_in_order(block)

    def _records_of(self, groups: Sequence[PlanLines]) -> Collection[Record]:
        """What was read: columns if the block is long, else records."""
        facts = sorted([*self._new_lengths(groups), *self._facts], key=itemgetter(0))
        single, groups = [*self._single, *self._tables.records], [*groups, *self._tables.groups]
        if len(self._lines.texts) >= _MANY_LINES:
            columns = [group.lines_at(*part) for group in groups for part in group.indices_by_metrics]
            if (table := MeasurementTable.of_rows(facts, single, columns)) is not None:
                return table
        return _in_order([*((row, [fact]) for row, fact in facts), *single], groups)

    def _new_lengths(self, groups: Sequence[PlanLines]) -> list[tuple[int, Fact]]:
        """The new totals of counters on lines whose training metrics were kept, as facts by row."""
        for group in groups:
            if group.kept_indices and group.plan.length_of:
                self._note_lengths(group)
        new_lengths = list[tuple[int, Fact]]()
        for fact in sorted(self._lengths, key=attrgetter("offset")):
            total, _, name = fact.value.partition(" ")
            context, length = self._contexts.of(fact.rank), (name, total.encode())
            if context.is_news(length):
                context.lengths.add(length)
                new_lengths.append((self._lines.ends.index(fact.offset), fact))
        return new_lengths

    def _note_lengths(self, group: PlanLines) -> None:
        """Note the first line with each new length, among the lines whose numbers were kept."""
        name, totals, ranks = group.plan.length_of, group.totals, group.ranks
        is_one = group.rank is not None
        lengths = {*product([group.rank], totals)} if is_one else {*zip(ranks, totals, strict=True)}
        news = {length for length in lengths if self._contexts.of(length[0]).is_news((name, length[1]))}
        for index in group.kept_indices if news else ():
            rank, total = ranks[index], totals[index]
            if (rank, total) in news:
                news.remove((rank, total))
                self._lengths.append(_length(name, total, rank, group.ends[index], group.times[index]))

    def _is_uniform(self, block: Block) -> bool:
        """Whether lines tell those below only a position, and none takes its epoch from another."""
        # Keeps logs half as fast as a loop of `re.search`:
        # 5,000 ranks 0.50 times, without 0.46; two alternating forms 2.19, without 0.54
        contexts, plans = self._contexts, [group.plan for group in block.groups]
        if block.single or self._may_have_rows or contexts.held or not all(plan.is_simple for plan in plans):
            return False
        if sum(plan.layout.clock.glog_at >= 0 for plan in plans) > 1:
            return False  # the month of a line may tell the year of the next
        have_epochs = [plan.layout.epoch >= 0 for plan in plans]
        take_epochs = (plan.reading.kind is LineKind.STEP and plan.layout.epoch < 0 for plan in plans)
        return not (any(have_epochs) and any(take_epochs))

    def _bars_by_rank(self, block: Block) -> Sequence[tuple[PlanLines, Sequence[int]]]:
        """The lines of each rank, if all are bars of training and those of one rank have one meaning."""
        # Keeps logs half as fast as a loop of `re.search`: labelled bars 0.66 times, without 0.43
        if block.single or self._may_have_rows or not all(map(self._are_bars, block.groups)):
            return []
        parts = [(group, group.indices_by_rank()) for group in block.groups]
        ranks = [*chain.from_iterable(indices_by_rank for _, indices_by_rank in parts)]
        if len({*ranks}) < len(ranks):
            return []
        return [(group, indices) for group, by_rank in parts for indices in by_rank.values()]

    def _is_run(self, block: Block) -> bool:
        """Whether all lines are of one plan and one rank."""
        # Keeps dense logs as fast as a loop of `re.search`: Keras 1.08 times, without 0.75
        if len(block.groups) != 1 or block.single or self._may_have_rows:
            return False
        ranks = block.groups[0].ranks
        return ranks.count(ranks[0]) == len(ranks)

    @property
    def _may_have_rows(self) -> bool:
        """Whether lines of the block may be of tables that began above it."""
        return bool(self._contexts.open_tables) or any(self._tables.is_row)

    def _read_in_order(self, block: Block) -> None:
        """Read lines in order: those that plans cover together, those of tables by the reader of tables."""
        owners, tables, row = block.owners(), self._contexts.open_tables, 0
        alone = {row for row in block.single if isinstance(owners[row], SkeletonPlans)}
        singles = sorted(alone.union(compress(range(len(owners)), self._tables.is_row)))
        singles.append(len(owners))
        while row < len(owners):
            end = singles[bisect_left(singles, row)]
            if tables or end == row:
                end = self._enter_rows(block, owners, row)
            else:
                self._enter_planned(range(row, end), cast("Sequence[PlanLines | None]", owners[row:end]))
            row = end

    def _enter_planned(self, rows: Sequence[int], owners: Sequence[PlanLines | None]) -> None:
        """Enter lines that plans cover; between lines without a rank, each rank's lines separately."""
        if not any(owner.is_ranked for owner in {*owners} if owner):
            self._enter_lines(rows, owners)
            return
        planned = [(row, owner) for row, owner in zip(rows, owners, strict=True) if owner]
        for _, lines in groupby(planned, lambda line: line[1].rank is None):
            by_rank = defaultdict[int | None, list[tuple[int, PlanLines]]](list)
            for row, owner in lines:
                by_rank[owner.rank].append((row, owner))
            for rank_lines in by_rank.values():
                self._enter_lines(*zip(*rank_lines, strict=True))

    def _enter_lines(self, rows: Sequence[int], owners: Sequence[PlanLines | None]) -> None:
        """Enter lines: as the cache places them, or successive ones of a plan in their context."""
        position = 0
        while position < len(owners):
            group, begin = owners[position], position
            if group is None:
                position += 1
                continue
            if not (self._contexts.held or group.plan.is_beside_bar):
                position = self._place(rows, owners, position)
            if position == begin:
                first = group.next_index
                while position < len(owners) and owners[position] in (group, None):
                    group.next_index += owners[position] is group
                    position += 1
                self._enter_run(group, slice(first, group.next_index))

    def _place(self, rows: Sequence[int], owners: Sequence[PlanLines | None], position: int) -> int:
        """Place lines of one rank and keep their numbers, while the cache knows how; return where it ends."""
        first = cast("PlanLines", owners[position])
        placements, rank = self._placements, first.ranks[first.next_index]
        context = self._contexts.between_lines(rank)
        at = self._own_number(self._lines, rows[position], rank) - 1
        state = placements.state_of(context, at)
        above: Above = context.step, context.epoch, context.phase_step
        redrawn: tuple[PlanLines, int] | None = None  # the last line
        are_successive = isinstance(rows, range)
        while position < len(owners):
            group = owners[position]
            if group is None:  # a line with nothing to read
                state, at = state.further.get(1) or placements.further_below(state, 1), at + 1
                position += 1
                continue
            if not are_successive:
                if group.ranks[group.next_index] != rank:
                    break
                state, at = self._state_above(state, at, rank, rows[position])
            placement = state.placements.get(group.plan) or placements.find(state, group.plan)
            if placement is None:
                break
            told, index = above, group.next_index
            if placement.position or placement.told:
                sources = None, group.steps[index], group.epochs[index], *above
                told = placement.told(sources) if placement.told else above
                if placement.position:
                    group.steps[index], group.epochs[index] = placement.position(sources)
            if placement.is_own:
                group.kept_indices.append(index)
            elif self._keep_placed(placement, context, group, index):
                redrawn = (group, index) if placement.is_redrawn else redrawn
            else:
                break
            group.next_index = index + 1
            above, state, at = told, placement.below, at + 1
            if rank is not None and state.is_of_block:
                self._contexts.lines.touch(rank, self._lines.first + rows[position])
            position += 1
        if redrawn:
            context.reported = {metric.name: value for metric, value in redrawn[0].numbers(redrawn[1])}
        context.state, context.line = state.state, at
        context.step, context.epoch, context.phase_step = above
        return position

    def _state_above(
        self, state: PlacedState, at: int, rank: int | None, row: int
    ) -> tuple[PlacedState, int]:
        """The state right above a line of a rank, and the number of the line above it."""
        above = self._own_number(self._lines, row, rank) - 1
        return (state if above == at else self._placements.further_below(state, above - at)), above

    def _keep_placed(
        self, placement: LinePlacement, context: LineContext, group: PlanLines, index: int
    ) -> bool:
        """Keep what a placement keeps of a line; return whether the placement applies."""
        if placement.is_redrawn:
            if context.reported_at == (group.epochs[index], group.steps[index]):
                return False
            context.reported_at = group.epochs[index], group.steps[index]
        if placement.has_twin:
            context.twin_number = group.values[0][index]
        if placement.metrics is not None:
            self._keep(group, [index], placement.metrics)
        return True

    def _enter_rows(self, block: Block, owners: Sequence[Owner], row: int) -> int:
        """Read lines that may be of a table, or one that no plan covers; return the row after them."""
        if (end := self._tables.enter_rows(row)) == row:
            owner = block.plans_at(row) if self._tables.is_row[row] else owners[row]
            is_opening = isinstance(owner, SkeletonPlans) and owner.opens_table
            if (end := self._tables.enter_lines(row, is_opening=is_opening)) == row:
                self._enter_alone(row, owner)
                return row + 1
        for passed in filter(None, owners[row:end]):
            if isinstance(passed, PlanLines):
                passed.next_index += 1
        return end

    def _enter_alone(self, row: int, owner: Owner) -> None:
        """Read a line that may stand between those of a table, or that no plan covers."""
        if isinstance(owner, PlanLines):
            index, owner.next_index = owner.next_index, owner.next_index + 1
            self._enter_run(owner, slice(index, index + 1))
        elif isinstance(owner, SkeletonPlans):
            self._add(row, self._read_single(row, owner))

    def _enter_run(self, group: PlanLines, run: slice) -> None:
        """Enter successive lines of one plan, and keep their numbers."""
        if group.plan.is_simple:
            self._release_before(group, run)
            self._enter_simple(group, run)
            return
        if self._are_bars(group):
            self._enter_bars(group, _indices(run))
            return
        self._enter(group, run.start)
        if (begin := run.start + 1) < run.stop:
            self._enter_below(group, slice(begin, run.stop))

    def _are_bars(self, group: PlanLines) -> bool:
        """Whether the lines of a group are bars of training, and no dict is held for them."""
        reading, held = group.plan.reading, self._contexts.held
        if reading.kind is not LineKind.STEP or not reading.is_bar or group.plan.layout.step < 0:
            return False
        ranks = {*group.ranks}
        is_held = bool(held) if None in ranks else not ranks.isdisjoint(held)
        return not is_held and all(self._contexts.of(rank).phase is None for rank in ranks)

    def _enter_below(self, group: PlanLines, run: slice) -> None:
        """Enter lines right below one of their plan."""
        plan, reading, rank = group.plan, group.plan.reading, group.ranks[run.start]
        # bars after a carriage return have no tag
        has_bar = any(self._contexts.of(owner).bar_step is not None for owner in (rank, None))
        is_placed = reading.kind is LineKind.STEP and self._contexts.of(rank).phase is None
        if plan.is_of_bar and not has_bar:
            self._enter_dicts(group, run)
        elif self._are_bars(group):
            self._enter_bars(group, _indices(run))
        elif is_placed and not (reading.is_bar or plan.is_of_bar):
            self._enter_simple(group, run)
        elif reading.kind is LineKind.REDRAWN:
            self._enter_redrawn(group, run)
        else:
            for index in _indices(run):
                self._enter(group, index)

    def _read_simple(self, group: PlanLines, run: slice) -> Iterable[tuple[LineContext, int]]:
        """Keep the numbers of simple lines in the epoch above them; return the last line of each context."""
        plan, indices = group.plan, _indices(run)
        self._keep(group, indices)
        ranks = group.ranks[run]
        is_one = ranks.count(ranks[0]) == len(ranks)
        last = {ranks[0]: indices[-1]} if is_one else dict(zip(ranks, indices, strict=True))
        contexts = [self._contexts.of(rank) for rank in last]
        if plan.reading.kind is LineKind.STEP and plan.layout.epoch < 0:
            epochs = dict(zip(last, [context.epoch for context in contexts], strict=True))
            group.epochs[run] = [epochs[ranks[0]]] * len(ranks) if is_one else [*map(epochs.get, ranks)]
        return zip(contexts, last.values(), strict=True)

    def _enter_simple(self, group: PlanLines, run: slice) -> None:
        """Keep the numbers of simple lines, and note their positions for the lines below."""
        for context, index in self._read_simple(group, run):
            self._note(group, index, context)

    def _note(self, group: PlanLines, index: int, context: LineContext) -> None:
        """Note the position of a simple line for the lines below."""
        context.note(group.steps[index], group.epochs[index])
        own_number = self._own_number(group.lines, group.rows[index], group.ranks[index])
        context.note_step_line(group.plan, own_number)

    def _keep(
        self, group: PlanLines, indices: Sequence[int], metrics: tuple[MetricName, ...] | None = None
    ) -> None:
        """Keep the numbers of lines; complete glog's times by the year of lines above."""
        clock = group.plan.layout.clock
        if clock.glog_at >= 0:
            years = (self._contexts.between_lines(rank).year for rank in {*group.ranks})
            has_year = self._clock or clock.has_glog_year or any(group.stamps) or any(years)
            for index in indices if has_year else ():
                group.times[index] = self._time(group, index)
        group.keep(indices, metrics or group.plan.metrics)

    def _release_before(self, group: PlanLines, run: slice) -> None:
        """Release held dicts before the next step line of their ranks."""
        held = self._contexts.held
        if not held or group.plan.reading.kind is not LineKind.STEP:
            return
        ranks = group.ranks[run]
        for rank in [*held]:
            if rank in ranks:
                self._add(group.rows[run.start + ranks.index(rank)], self._contexts.release(rank))

    def _add(self, row: int, records: Sequence[Record]) -> None:
        """Add records of a line, in front of its columns."""
        if records:
            self._single.append((row, records))

    def _enter(self, group: PlanLines, index: int) -> None:
        """Enter a line, and keep its numbers where its context places them."""
        numbers = group.numbers(index)
        records, placed = self._enter_line(group, index, numbers)
        if placed:
            step, epoch, new = placed
            is_waiting = group.plan.is_of_bar and not (step is None and group.times[index] is None)
            if new is not numbers or is_waiting:
                records = [*records, *self._records_at(group, index, placed)]
            else:
                group.steps[index], group.epochs[index] = step, epoch
                self._keep(group, [index])
        self._add(group.rows[index], records)

    def _enter_bars(self, group: PlanLines, indices: Sequence[int]) -> None:
        """Enter bars of one rank, and keep the numbers that are new."""
        # Keeps dense logs as fast as a loop of `re.search`: tqdm 1.12 times, without 0.32
        plan, rank, last = group.plan, group.ranks[indices[0]], indices[-1]
        context = self._contexts.of(rank)
        if plan.layout.epoch < 0 and context.epoch is not None:
            for index in indices:
                group.epochs[index] = context.epoch
        if self._clock:
            for index in indices:
                self._note_count(group.ends[index], group.steps[index], context.bar_total)
        positions = zip(_at(group.epochs, indices), _at(group.steps, indices), strict=True)
        drawn = [*zip(*[_at(column, indices) for column in group.values], strict=True)]
        again = context.drawn_again(plan, positions, drawn)
        for place, new in again.items():
            if new:
                index = indices[place]
                placed = group.steps[index], group.epochs[index], new
                self._add(group.rows[index], self._records_at(group, index, placed))
        if again:
            indices = [index for place, index in enumerate(indices) if place not in again]
        self._keep(group, indices)
        context.note(group.steps[last], group.epochs[last])
        context.heading_line = group.lines.first + group.rows[last]
        if rank is not None:
            self._contexts.lines.begin(rank, context.heading_line)

    def _enter_dicts(self, group: PlanLines, run: slice) -> None:
        """Enter printed dicts that no bar places."""
        # Keeps dense logs as fast as a loop of `re.search`: Transformers 1.18 times, without 0.38
        rank = group.ranks[run.start]
        if group.plan.layout.epoch < 0:
            group.epochs[run] = [self._contexts.of(rank).epoch] * (run.stop - run.start)
        placed = zip(group.ends[run], group.epochs[run], group.times[run], strict=True)
        self._unplaced += [
            (end, UnplacedDict(rank, epoch, time)) for end, epoch, time in placed if time is not None
        ]
        self._keep(group, _indices(run))

    def _enter_redrawn(self, group: PlanLines, run: slice) -> None:
        """Enter bars of Keras, and keep the numbers that are new at their step."""
        # Keeps dense logs as fast as a loop of `re.search`: Keras 1.03 times, without 0.41
        plan, context = group.plan, self._contexts.of(group.ranks[run.start])
        if plan.layout.epoch < 0:
            group.epochs[run] = [context.epoch] * (run.stop - run.start)
        epoch, step = context.reported_at
        steps, epochs = [step, *group.steps[run]], [epoch, *group.epochs[run]]
        again = [
            run.start + index
            for index, is_same in enumerate(map(eq, steps, steps[1:]))
            if is_same and epochs[index] == epochs[index + 1]
        ]
        begin = run.start
        for end in (*again, run.stop):
            if begin < end:
                self._keep(group, range(begin, end))
                context.reported_at = group.epochs[end - 1], group.steps[end - 1]
                context.reported = {metric.name: value for metric, value in group.numbers(end - 1)}
                context.note(group.steps[end - 1], group.epochs[end - 1])
            if end < run.stop:
                self._enter(group, end)
            begin = end + 1

    def _read_single(self, row: int, plans: SkeletonPlans) -> list[Record]:
        """Read a line that no plan covers, or that is incomplete."""
        lines = self._lines
        text, is_whole = lines.texts[row], lines.is_whole(row)
        match = None if plans.is_joined else self.plans.find(plans, text)
        if plans.is_joined and (parts := self.plans.parts_of(text)):
            return self._read_parts(row, parts)
        match = match or self.plans.find(plans, text)
        if not match or (lines.is_continued and row == 0):
            return []
        is_complete = is_whole or self.plans.is_complete(text, match.plan)
        return self._records(lines, row, *match) if is_complete else []

    def _read_parts(self, row: int, parts: Sequence[bytes]) -> list[Record]:
        """Read the lines that several processes wrote without a newline between."""
        records, lines = list[Record](), self._lines
        rank, stamp = lines.rank_at(row), printed_time(lines.texts[row]) or lines.stamp_at(row)
        is_ended = lines.has_end or row < len(lines.texts) - 1
        if not is_ended and _MAY_GO_ON.fullmatch(parts[-1]):
            parts = parts[:-2]
        for number, part in enumerate(parts, 1):
            plans = self.plans.of(part)
            match = plans and self.plans.find(plans, part)
            may_be_cut = number == len(parts) and not (is_ended or part[-1:].isspace())
            if match and not (may_be_cut and not self.plans.is_complete(part, match.plan)):
                line = Lines([part], [lines.ends[row]], rank, lines.first + row, stamps=[stamp])
                records += self._records(line, 0, *match)
        return records

    def _records(self, lines: Lines, row: int, plan: LinePlan, groups: Groups) -> list[Record]:
        """The records that a single line completes: held ones of lines above, then its own."""
        group, texts = PlanLines(plan, lines), [b"", *groups]
        group.add([row], texts, ranks_of(plan, lines, [row], texts))
        if group.labelled_row is not None:
            self._learn_label(lines, row, plan)
        group.convert(self._clock)
        before, placed = self._enter_line(group, 0, group.numbers(0))
        return [*before, *self._records_at(group, 0, placed)] if placed else before

    def _records_at(self, group: PlanLines, index: int, placed: Placed) -> list[Record]:
        """The numbers of a line as records; none if they are held for a bar."""
        (step, epoch, numbers), rank, end = placed, group.ranks[index], group.ends[index]
        plan, seconds = group.plan, self._time(group, index)
        records: list[Measurement] = [
            measurement((name, value, unit, step, epoch, rank, end, seconds, phase))
            for (name, unit, phase), value in numbers
        ]
        if plan.length_of and (name := name_of_training(metric for metric, _ in numbers)):
            total = group.totals[index]
            if self._contexts.of(rank).is_news((name, total)):
                self._lengths.append(_length(name, total, rank, end, seconds))
        if plan.is_of_bar:
            if step is not None:
                self._contexts.held[rank] = HeldDict(group.lines.first + group.rows[index], records)
                return []
            if seconds is not None:
                self._unplaced.append((end, UnplacedDict(rank, epoch, seconds)))
        return [*records]

    def _enter_line(
        self, group: PlanLines, index: int, numbers: Values
    ) -> tuple[list[Record], Placed | None]:
        """The held records that a line releases, and its own numbers if its context places them."""
        plan, reading = group.plan, group.plan.reading
        rank, row = group.ranks[index], group.rows[index]
        context, own_number = self._contexts.of(rank), group.lines.first + row
        if rank is not None:
            own_number = self._own_number(group.lines, row, rank)
        if reading.is_member and context.step_line == own_number - 2:
            # a line with nothing to read may belong to the block below a step line
            above = group.lines.texts[row - 1] if row else self._last_text
            context.step_line += _MEMBER.match(above, row_begin(above)) is not None
        position = context.enter(plan, own_number, group.steps[index], group.epochs[index], numbers)
        if rank is not None:
            self._touch(group, index, own_number)
        before = self._released(group, index) if reading.is_bar or self._contexts.held else []
        if position and position[0] is None and reading.is_dict and reading.step is None:
            # bars after a carriage return have no tag
            position = (self._contexts.of(None).bar_step, *position[1:])
        return before, position

    def _released(self, group: PlanLines, index: int) -> list[Record]:
        """The records of a held dict that this line, which may be its bar, releases."""
        rank, reading, number = group.ranks[index], group.plan.reading, group.lines.first + group.rows[index]
        if not reading.is_bar:
            return self._contexts.release(rank)
        context = self._contexts.of(rank)
        count = context.count_of(reading)
        if count is None:
            return []
        self._note_count(group.ends[index], count, context.bar_total)
        return self._contexts.release(rank, number, count, context.bar_total)

    def _note_count(self, end: int, count: int | None, total: float) -> None:
        """Note what a bar showed when it was drawn."""
        written = self._clock.at(end) if self._clock else None
        if written is not None and count is not None:
            self._bar_counts.append((end, BarCount(written, count, total)))

    def _touch(self, group: PlanLines, index: int, own_number: int) -> None:
        """Note a line if it belongs to the block below a heading of its rank."""
        rank, lines = group.ranks[index], group.lines
        if rank is not None and self._contexts.of(rank).is_of_block(own_number):
            self._contexts.lines.touch(rank, lines.first + group.rows[index])

    def _learn_label(self, lines: Lines, row: int, plan: LinePlan) -> None:
        """Learn the label with the rank of a plan's lines from a line without a tag."""
        layout, text = plan.layout, lines.texts[row]
        if match := layout.expression.fullmatch(text):
            begin, end = match.span(layout.rank + 1)
            self._contexts.lines.learn_label(lines.first + row, text[:begin], text[end : end + 1])

    def _own_number(self, lines: Lines, row: int, rank: int | None) -> int:
        """The number of a line as the process with this rank counts its lines."""
        number = lines.first + row
        if rank is None or not self._contexts.lines.is_open:
            return number
        return self._contexts.lines.number(rank, number, self._lines)

    def _time(self, group: PlanLines, index: int) -> float | None:
        """When a line was printed; the year of a time in glog's form is from lines above."""
        glog_at = group.plan.layout.clock.glog_at
        if glog_at < 0:
            return group.times[index]
        stamp = group.stamps[index]
        if stamp is None:
            text = group.lines.texts[group.rows[index]]
            context = self._contexts.between_lines(group.ranks[index])
            stamp = parse_glog_timestamp(text[glog_at:], context.year_for)
        return wall_time(stamp, self._clock.at(group.ends[index]) if self._clock else None)


def _in_order(single: Iterable[tuple[int, Sequence[Record]]], groups: Iterable[PlanLines]) -> list[Record]:
    """The single records and the numbers kept in groups, in the order of their rows."""
    lines = chain(single, chain.from_iterable(group.measurements() for group in groups))
    return [record for _, records in sorted(lines, key=itemgetter(0)) for record in records]


def _length(name: str, total: bytes, rank: int | None, end: int, seconds: float | None) -> Fact:
    return Fact(LENGTH, f"{total.decode()} {name}", rank, end, seconds)


def _indices(run: slice) -> range:
    return range(run.start, run.stop)


def _at(column: Sequence[_Number], indices: Sequence[int]) -> Sequence[_Number]:
    """The numbers at these indices."""
    if isinstance(indices, range):
        return column[indices.start : indices.stop]
    return [*map(column.__getitem__, indices)]
