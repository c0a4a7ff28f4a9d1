"""The context of a line from the lines above: epoch, step, phase, and the last state of progress bars."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import NamedTuple

from batchai_magics.metrics.grammar.metric_names import (
    TRAIN,
    in_phase,
    is_measure,
    is_quality,
    is_timer,
    may_be_integer,
    split_phase,
)
from batchai_magics.metrics.grammar.metric_tables import NOTHING, MetricTable
from batchai_magics.metrics.grammar.parsed_line import LineKind, ParsedLine
from batchai_magics.metrics.grammar.row_patterns import Row
from batchai_magics.metrics.measurement import MetricName, Record
from batchai_magics.metrics.reading.bar_steps import BarCount, BarSteps, HeldDict, UnplacedDict
from batchai_magics.metrics.reading.line_plan import LinePlan
from batchai_magics.metrics.reading.process_lines import ProcessLines

_MAX_RANKS = 1 << 15
FAR = 16  # lines; no block has as many without a number
_MAX_LENGTHS = 64  # of a rank's counters; epochs of more lengths have none in common
_MAX_GAP = 3  # lines between the members of a block
_MAX_RULE_GAP = 2
_MAX_LIST_GAP = 4  # between the members of a list that begins with its position: `Iteration: 3`
_MOST_WORDS = 3  # of a name alone below a step line, which no sentence has
_MAX_PHASE_GAP = 12  # below the heading of a phase, where evaluations warn

_NEVER_SET = re.compile(
    r"(?i)(?:val_|eval_|test_)?(?:loss|(?:top\d?[_-]?)?acc(?:uracy)?(?:[_@-]?\d)?|f1(?:_(?:score|macro|micro))?"
    r"|auc|auroc|perplexity|ppl|rmse|mae|mse|r2|wer|cer|bleu|rouge\w{0,2}|ndcg\S{0,4}|mrr)"
)
"""Names of measures that no program has as settings."""

_OF_ALL_STEPS = re.compile(r"avg|average|mean|final|best|total|epoch|min|max|last|sum|running|previous")
"""Words of a loss that is not of one step."""

_OBJECT_KINDS = (LineKind.OBJECT, LineKind.REDRAWN, LineKind.BELOW, LineKind.YEAR)
"""Lines that need no more of those above than a position."""

Values = list[tuple[MetricName, float]]

Placed = tuple[int | None, float | None, Values]
"""The step, the epoch and the numbers of a line."""


class ContextState(NamedTuple):
    """What a context tells the lines below, without numbers and what only bars need.

    `to_heading`, `to_step` and `to_phase` count the lines since the last heading, step line and heading of a
    phase. `twin` is the context's without its number.
    """

    is_of_file: bool
    has_step: bool
    has_epoch: bool
    has_step_of_phase: bool
    is_known: bool
    is_list: bool
    phase: str | None
    is_phase_new: bool
    may_open_settings: bool
    step_plan: LinePlan | None
    twin: tuple[str, str] | None
    to_heading: int
    to_step: int
    to_phase: int

    def further_below(self, line_count: int) -> ContextState:
        """The state after this many lines that change nothing."""
        distances = self.to_heading, self.to_step, self.to_phase
        to_heading, to_step, to_phase = (min(distance + line_count, FAR) for distance in distances)
        return self._replace(to_heading=to_heading, to_step=to_step, to_phase=to_phase)


@dataclass(slots=True)
class LineContext:
    """The position of one process, from the lines that it has printed.

    Between lines with placements, `state` has everything but the numbers, as of `line`.
    """

    is_of_file: bool = False  # the process wrote the file alone; else its lines have a rank

    epoch: float | None = None
    step: int | None = None
    is_known: bool = False  # a step line was read
    heading_line: int = -(1 << 30)  # number of the last heading, or of the last line that belongs to it
    is_list: bool = False  # the heading is the first of lines of names and numbers
    step_line: int = -(1 << 30)  # number of the last step line, or of the last indented line right below it
    step_plan: LinePlan | None = None  # of that step line
    bar_step: int | None = None
    bar_total: float = 0
    is_counted: bool = False  # the last bar was the one whose count is `bar_step`
    next_bar: tuple[int | None, float] | None = None  # that began after that one had ended
    shown: dict[str, float] = field(default_factory=dict)  # the numbers of the last bar
    shown_at: tuple[float | None, int | None] | None = None  # where they changed
    phase: str | None = None  # of the line below
    phase_line: int = -(1 << 30)
    phase_step: int | None = None  # if its heading tells it
    twin: tuple[str, float, str] | None = None  # a number of a phase, alone on the line above
    twin_number: float = 0
    is_phase_new: bool = False  # nothing was read below its heading
    may_open_settings: bool = False  # its heading, as `val:` in YAML
    table: MetricTable | None = None  # once a line may have been one of a table
    reported: dict[str, float] = field(default_factory=dict)  # the numbers that were read …
    reported_at: tuple[float | None, int | None] = (None, None)  # … at this epoch and step
    year: int | None = None  # of glog timestamps, which may omit it …
    month: int = 0  # … and the month of the last one
    lengths: set[tuple[str, bytes]] = field(default_factory=set)  # of counters, by the metric beside them
    bar_steps: BarSteps = field(default_factory=BarSteps)  # of its dicts
    state: ContextState | None = None
    line: int = 0

    def state_at(self, line: int) -> ContextState:
        """The state for the lines after this one."""
        return ContextState(
            self.is_of_file,
            self.step is not None,
            self.epoch is not None,
            self.phase_step is not None,
            self.is_known,
            self.is_list,
            self.phase,
            self.is_phase_new,
            self.may_open_settings,
            self.step_plan,
            self.twin and (self.twin[0], self.twin[2]),
            min(line - self.heading_line, FAR),
            min(line - self.step_line, FAR),
            min(line - self.phase_line, FAR),
        )

    def restore(self, state: ContextState, line: int) -> None:
        """Restore everything but the numbers from a state as of this line."""
        self.is_known, self.is_list, self.phase = state.is_known, state.is_list, state.phase
        self.is_phase_new, self.may_open_settings = state.is_phase_new, state.may_open_settings
        self.step_plan = state.step_plan
        self.twin = (state.twin[0], self.twin_number, state.twin[1]) if state.twin else None
        self.heading_line, self.step_line = line - state.to_heading, line - state.to_step
        self.phase_line = line - state.to_phase

    def enter(
        self, plan: LinePlan, line: int, step: int | None, epoch: float | None, numbers: Values
    ) -> Placed | None:
        """Enter a line with this number in its process: its step, epoch and numbers, None without any."""
        reading = plan.reading
        if reading.kind in _OBJECT_KINDS:
            return self._enter_object(reading.kind, step, epoch, numbers)
        if reading.kind is LineKind.STEP:
            return self._enter_step(plan, line, step, epoch, numbers)
        if reading.kind is LineKind.LOOSE:
            return self._loose(plan, numbers, line)
        if reading.kind is LineKind.RULE:
            if line - self.heading_line <= _MAX_RULE_GAP:
                self.heading_line = line
            if reading.is_member and line - self.phase_line <= _MAX_RULE_GAP:
                self.phase_line = line
        elif reading.kind is LineKind.BAR:
            self._enter_bar(step, epoch, numbers)
        else:
            self._enter_heading(reading, step, epoch, line)
        return None

    def _enter_step(
        self, plan: LinePlan, line: int, step: int | None, epoch: float | None, numbers: Values
    ) -> Placed:
        """The step, epoch and new numbers of a step line, or of a bar or a dict with numbers."""
        reading = plan.reading
        if reading.is_dict and step is None:
            step = self._step_of_bar(plan)
        elif self._is_evaluated(plan, line, step, epoch):
            if reading.is_bar:  # so are its next draws
                self.phase_line = line
            else:
                self.note_step_line(plan, line)
            return self.step, self.epoch if epoch is None else epoch, _in_phase(numbers, self.phase or TRAIN)
        else:
            self.note(step, epoch)
        if reading.is_bar:
            numbers = self._new_on_bar(numbers)
            self.heading_line = line  # Lightning's rich bar goes on below
        elif not plan.is_of_bar:
            self.note_step_line(plan, line)
        return step, self.epoch if epoch is None else epoch, numbers

    def _enter_object(self, kind: LineKind, step: int | None, epoch: float | None, numbers: Values) -> Placed:
        """The position and the new numbers of a line that needs at most the context of a bar."""
        if kind is LineKind.YEAR:
            (_, year), (_, month) = numbers
            self.year, self.month = int(year), int(month)
            return None, None, []
        if kind is LineKind.BELOW:
            step, epoch = self.step, self.epoch
        elif kind is LineKind.REDRAWN:
            epoch = self.epoch if epoch is None else epoch
            if self.reported_at == (epoch, step):
                numbers = [
                    (metric, value) for metric, value in numbers if self.reported.get(metric.name) != value
                ]
            else:
                self.reported_at, self.reported = (epoch, step), {}
            self.reported.update([(metric.name, value) for metric, value in numbers])
        elif isinstance(epoch, float) and epoch.is_integer():
            epoch = int(epoch)
        if numbers:
            self.note(step, epoch)
        return step, epoch, numbers

    def _is_evaluated(self, plan: LinePlan, line: int, step: int | None, epoch: float | None) -> bool:
        """Whether a line is of the phase of the heading above: without a step, or a bar that counts anew."""
        reading = plan.reading
        if self.phase is None or reading.phase is not None:
            return False
        if self.step is None:  # the bar right below the heading of its epoch and phase
            return reading.is_bar and self.epoch is not None and epoch is None and line - self.phase_line == 1
        if step is None:
            is_near = line - self.phase_line <= _MAX_PHASE_GAP
            return epoch is not None and is_near and _has_quality(plan)
        if not reading.is_bar or line - self.phase_line != 1:
            return False
        return epoch in (None, self.epoch) and step < self.step  # unlike the next bar of training

    def enter_row(self, line: bytes, number: int) -> Row | None:
        """The step, the epoch and the numbers that a line of a table completes; None for other lines."""
        is_of_phase = self.phase is not None and number - self.phase_line <= _MAX_GAP
        table = self.table = self.table or MetricTable()
        table.phase_above = self.phase if is_of_phase else None
        table.is_below_heading = is_of_phase or number - self.heading_line <= _MAX_GAP
        row = table.enter(line)
        if row is None or not row.numbers:
            return row
        if row.step is not None or row.epoch is not None:
            self.note(row.step, row.epoch)
            return row._replace(epoch=self.epoch)
        if table.is_bound and not self.is_known and self.epoch is None and self.step is None:
            return NOTHING
        has_own_step = self.epoch is None or table.is_of_heading
        return row._replace(step=self.step if has_own_step else None, epoch=self.epoch)

    def is_of_block(self, line: int) -> bool:
        """Whether a line with this number is the last one so far of the block below a heading."""
        return line == self.heading_line or (self.phase is not None and line == self.phase_line)

    def has_ended(self, line: int) -> bool:
        """Whether a line with this number is too far below any heading to belong to it."""
        return line - self._last_heading_line > _MAX_PHASE_GAP

    @property
    def _last_heading_line(self) -> int:
        """The number of the last line of a block, which has ended if numbers with a position are below."""
        return self.heading_line if self.phase is None else max(self.heading_line, self.phase_line)

    def note(self, step: int | None, epoch: float | None) -> None:
        """Note the position of a line with numbers."""
        self.is_known, self.phase, self.phase_step = True, None, None
        self.heading_line = self.step_line = -(1 << 30)
        if epoch is not None:
            self.epoch = epoch
        self.step = step

    def note_step_line(self, plan: LinePlan, line: int) -> None:
        """Note a step line for the lines right below, if the file has a single process."""
        if self.is_of_file:
            self.step_line, self.step_plan = line, plan

    def count_of(self, reading: ParsedLine) -> int | None:
        """The count of the bar just drawn, if it is a bar of training; else None."""
        if reading.kind is LineKind.BAR:
            return self.bar_step if self.is_counted else None
        return self.step

    def is_news(self, length: tuple[str, bytes]) -> bool:
        """Whether the total of a counter is new."""
        return len(self.lengths) < _MAX_LENGTHS and length not in self.lengths

    def year_for(self, month: int) -> int | None:
        """The year of a timestamp in this month, assuming it is close to the last one; None if unknown."""
        months_back = self.month - month
        if self.year is None or not self.month or months_back < -6:  # out of order around New Year
            return self.year and self.month and self.year - 1
        self.year += months_back > 6
        self.month = month
        return self.year

    def _loose(self, plan: LinePlan, numbers: Values, line: int) -> Placed | None:
        """The numbers of a line without a position, if they belong to the position above it or need none."""
        if placed := self._below_phase(plan, numbers, line):
            return placed
        is_setting = self.phase is not None and self.may_open_settings and line - self.phase_line <= _MAX_GAP
        if is_setting or self._may_be_setting(plan):
            return None
        numbers, is_twin = self._like_twin(numbers)
        has_position = (self.step, self.epoch) != (None, None)
        if self._is_in_block(plan, line) or (plan.reading.is_result and not has_position):
            return self.step, self.epoch, numbers
        if not (plan.reading.is_plain or is_twin) or not (has_position or self.is_known):
            return None
        if self.epoch is None:
            return self.step, None, numbers
        if line - self.heading_line <= _MAX_LIST_GAP:
            self.heading_line = line
        return None, self.epoch, numbers

    def _below_phase(self, plan: LinePlan, numbers: Values, line: int) -> Placed | None:
        """The numbers of a line that belongs to the heading of a phase, or to the numbers right below it."""
        if self.phase is None or plan.reading.phase is not None:
            return None
        if self.may_open_settings and not (self.is_known or plan.reading.is_result or _is_no_setting(plan)):
            return None
        gap = line - self.phase_line
        is_near = gap <= 2  # another rank may print between
        if self.is_phase_new:
            is_near = gap <= _MAX_PHASE_GAP and any(is_quality(metric.name) for metric in plan.metrics)
        if not is_near:
            return None
        self.phase_line, self.is_phase_new = line, False
        step = self.step if self.epoch is None else self.phase_step
        return step, self.epoch, _in_phase(numbers, self.phase)

    def _is_in_block(self, plan: LinePlan, line: int) -> bool:
        """Whether a line belongs to the block below a heading or a step line, which then goes on."""
        is_block = len(plan.metrics) == 1 or plan.reading.is_wrapped
        is_below_step = plan.reading.is_member and is_block and line - self.step_line == 1
        if is_below_step:
            self.step_line = line
        if line - self.heading_line <= (_MAX_LIST_GAP if self.is_list else _gap_below(plan)):
            self.heading_line = line
            return True
        return (is_below_step and self._is_of_step(plan)) or self._is_rest_of_step(plan, line)

    def _is_rest_of_step(self, plan: LinePlan, line: int) -> bool:
        """Whether a line has the measures of a step line right above it, which has others or none."""
        has_phase = plan.reading.phase or any(metric.phase != TRAIN for metric in plan.metrics)
        gap = line - self.step_line
        are_losses = len(plan.metrics) > 1 or plan.metrics[0].name.endswith("loss")
        most = _MAX_RULE_GAP if are_losses else 1  # timers may stand between
        if self.step_plan is None or gap > most or has_phase or plan.reading.is_plain:
            return False
        if not _has_quality(self.step_plan):
            self.step_line = line  # more may follow
            return _has_quality(plan)
        if gap != 1:
            return False
        names = {metric.name for metric in plan.metrics}
        above = {metric.name for metric in self.step_plan.metrics}
        are_measures = all(is_measure(name) and name.count("_") < _MOST_WORDS for name in names)
        is_rest = not plan.reading.is_result and (len(names) > 1 or self._is_part(plan))
        if not (_has_quality(plan) and are_measures and is_rest and names.isdisjoint(above)):
            return False
        self.step_line = line
        return True

    def _is_part(self, plan: LinePlan) -> bool:
        """Whether a number alone is a part of the loss above: `bce_loss: 0.2` below `step 7, loss: 0.5`."""
        above = self.step_plan.metrics if self.step_plan else ()
        head, _, tail = plan.metrics[0].name.replace("-", "_").rpartition("_")
        is_named = bool(head) and tail == "loss" and not _OF_ALL_STEPS.search(head)
        return is_named and not plan.reading.is_whole and any(metric.name == "loss" for metric in above)

    def _may_be_setting(self, plan: LinePlan) -> bool:
        """Whether a line below `epoch: 100` may be a setting: no loss or score was read so far."""
        if not self.is_list or self.is_known:
            return False
        self.is_known = any(is_quality(metric.name) for metric in plan.metrics)
        return not self.is_known

    def _is_of_step(self, plan: LinePlan) -> bool:
        """Whether the number of a line below a step line is of that step, unlike `error: 404`."""
        above = self.step_plan.metrics if self.step_plan else ()
        name = plan.metrics[0].name
        if len(plan.metrics) > 1:
            return {metric.name for metric in plan.metrics}.isdisjoint(metric.name for metric in above)
        may_be_whole = may_be_integer(name) and "score" not in name
        is_number = is_measure(name) and (may_be_whole or not plan.reading.is_whole)
        return is_number and not any(name == metric.name for metric in above)

    def _like_twin(self, numbers: Values) -> tuple[Values, bool]:
        """The numbers, in the phase of the line above if they repeat its number, and whether they repeat it.

        ACT prints `Val loss: 0.5312`, then `l1: 0.312 kl: 0.022 loss: 0.531`.
        """
        twin, self.twin = self.twin, None
        if len(numbers) == 1:
            metric, value = numbers[0]
            phase_of_name, name = split_phase(metric.name)
            self.twin = (name, value, metric.phase) if phase_of_name else None
        elif twin:
            name, printed, phase = twin
            error = 1e-3 * max(abs(printed), 1.0)  # of a number in fewer digits
            if any(metric.name == name and abs(value - printed) <= error for metric, value in numbers):
                return _in_phase(numbers, phase), True
        return numbers, False

    def _enter_heading(self, reading: ParsedLine, step: int | None, epoch: float | None, line: int) -> None:
        """Begin the block below a heading with a phase, a position or both."""
        has_position = (self.step, self.epoch) != (None, None) and not self.is_list
        is_of_block = has_position and line - self._last_heading_line <= _MAX_GAP
        self._begin_phase(self._phase_below(reading, epoch, line), line, step)
        self.may_open_settings = reading.is_opening and not (self.is_known or is_of_block)
        self.step_line = -(1 << 30)
        is_training = reading.kind is LineKind.PHASE and reading.phase in (None, TRAIN)
        goes_on = is_training and (is_of_block or not reading.is_opening)  # the block above
        if goes_on or (step, epoch) != (None, None):
            self.heading_line, self.is_list = line, reading.is_list
        if epoch is not None:
            self.epoch, self.step = epoch, step
        elif step is not None:
            self.step = step

    def _phase_below(self, reading: ParsedLine, epoch: float | None, line: int) -> str | None:
        """The phase of the lines below a heading; None for training."""
        is_right_below = reading.phase is None and line - self.phase_line == 1
        if is_right_below and epoch is not None and epoch == self.epoch:
            return self.phase  # `Validation:`, then `[Epoch: 0, numImages: 400]`
        return None if reading.phase == TRAIN else reading.phase

    def _begin_phase(self, phase: str | None, line: int, step: int | None) -> None:
        """Begin a phase below its heading on this line, which may have its step."""
        if step is not None or phase != self.phase:
            self.phase_step = step
        self.phase, self.phase_line, self.is_phase_new = phase, line, True

    def _enter_bar(self, step: int | None, epoch: float | None, numbers: Values) -> None:
        """Note the count of the outermost bar; inner bars have other lengths."""
        if epoch is not None:
            self.epoch = epoch
        self.is_counted = False
        for _, total in numbers:
            if total == self.bar_total or not self.bar_total:
                self.bar_step, self.bar_total, self.is_counted = step, total, True
            elif (self.bar_step or 0) >= self.bar_total:
                self.next_bar = step, total

    def _step_of_bar(self, plan: LinePlan) -> int | None:
        """The count of the bar of training, which may have ended before the bar of an evaluation."""
        is_summary = any("per_second" in metric.name for metric in plan.metrics)
        if self.next_bar and not is_summary and any(metric.phase == "train" for metric in plan.metrics):
            self.bar_step, self.bar_total = self.next_bar
            self.next_bar = None
        return self.bar_step

    def drawn_again(
        self,
        plan: LinePlan,
        positions: Iterable[tuple[float | None, int | None]],
        drawn: Sequence[tuple[float, ...]],
    ) -> dict[int, Values]:
        """The new numbers of bars that repeat others, by the index of the bar in `drawn`."""
        again: dict[int, Values] = {}
        names = [metric.name for metric in plan.metrics]
        are_trained, shown_at = all(metric.phase == TRAIN for metric in plan.metrics), self.shown_at
        shown = [tuple(self.shown.get(name, nan) for name in names), *drawn]
        for index, (at, last, values) in enumerate(zip(positions, shown, drawn, strict=False)):
            if values == last:
                again[index] = []
            elif are_trained and at != shown_at:
                shown_at = at
            else:
                self.shown_at = shown_at
                self.shown, (self.epoch, self.step) = dict(zip(names, last, strict=True)), at
                numbers = [*zip(plan.metrics, values, strict=True)]
                new, shown_at = self._new_on_bar(numbers), self.shown_at
                if new is not numbers:
                    again[index] = new
        self.shown_at = shown_at
        self.shown = dict(zip(names, drawn[-1], strict=True))
        return again

    def _new_on_bar(self, numbers: Values) -> Values:
        """The numbers of a bar, without those that are only redrawn."""
        trained = {name.name: value for name, value in numbers if name.phase == "train"}
        is_drawn_again = self.shown_at == (self.epoch, self.step) and bool(self.shown)
        is_new = not is_drawn_again and any(self.shown.get(name) != value for name, value in trained.items())
        self.shown_at = (self.epoch, self.step) if is_new else self.shown_at
        fresh = [
            (name, value)
            for name, value in numbers
            if (is_new and name.phase == "train") or self.shown.get(name.name) != value
        ]
        self.shown = {name.name: value for name, value in numbers}
        return numbers if len(fresh) == len(numbers) else fresh


class RankContexts:
    """The contexts of one stream's processes, by rank."""

    def __init__(self, file_rank: int | None) -> None:
        self._file_rank = file_rank
        self._by_rank: dict[int | None, LineContext] = {}
        self.open_tables: set[int | None] = set()  # of the grammar, by rank
        self.held: dict[int | None, HeldDict] = {}  # by the rank that printed it
        self.lines = ProcessLines(lambda rank, number: self.of(rank).has_ended(number))
        self.bar_counts: list[BarCount] = []
        self.unplaced: list[UnplacedDict] = []

    def release(
        self, rank: int | None, line: int = 0, done: int | None = None, total: float = 0
    ) -> list[Record]:
        """Release a rank's held numbers; a bar on this line shows `done` of `total` steps.

        A bar without a rank releases those of all ranks, as it has no tag after a carriage return.
        """
        if rank is None and done is not None:
            ranks = sorted(self.held, key=lambda rank: self.held[rank].line)
        else:
            ranks = [rank] if rank in self.held else []
        held = [(self.of(rank).bar_steps, self.held.pop(rank)) for rank in ranks]
        return [
            record
            for steps, held_dict in held
            for record in steps.numbers_at_bar(held_dict, line, done, total)
        ]

    def release_all(self) -> list[Record]:
        """Release all held numbers at the end of the stream."""
        ranks = sorted(self.held, key=lambda rank: self.held[rank].line)
        return [record for rank in ranks for record in self.release(rank)]

    def begin_attempt(self) -> list[Record]:
        """Forget what the processes of the attempt before have printed; returns the held numbers."""
        released = self.release_all()
        self._by_rank.clear()
        self.open_tables.clear()
        return released

    def enter_row(self, rank: int | None, line: bytes, number: int) -> Row | None:
        """What a line of a rank's table completes; None for other lines."""
        context = self.of(rank)
        row = context.enter_row(line, number)
        if context.table and context.table.is_open:
            self.open_tables.add(rank)
        else:
            self.open_tables.discard(rank)
        return row

    def table_of(self, rank: int | None) -> MetricTable | None:
        """The tables of a process; None before its first."""
        return self._by_rank[rank].table if rank in self._by_rank else None

    def of(self, rank: int | None) -> LineContext:
        """The context of one process."""
        context = self.between_lines(rank)
        if context.state:
            context.restore(context.state, context.line)
            context.state = None
        return context

    def between_lines(self, rank: int | None) -> LineContext:
        """The context of one process, of which `state` may have all but the numbers."""
        context = self._by_rank.get(rank)
        if context is None:
            if len(self._by_rank) >= _MAX_RANKS:
                self._by_rank.clear()
                self.open_tables.clear()
            context = self._by_rank[rank] = LineContext(is_of_file=rank == self._file_rank)
        return context


def _in_phase(numbers: Values, phase: str) -> Values:
    """The numbers, with those of training moved to this phase, unless their names say that they are."""
    return [
        (metric._replace(name=in_phase(metric.name, phase), phase=phase), value)
        if metric.phase == TRAIN and split_phase(metric.name)[0] != TRAIN
        else (metric, value)
        for metric, value in numbers
    ]


def _has_quality(plan: LinePlan) -> bool:
    return any(is_quality(metric.name) and not is_timer(metric.name) for metric in plan.metrics)


def _is_no_setting(plan: LinePlan) -> bool:
    """Whether a line assigns fractions to measures that are never set, unlike `iou_threshold = 0.5`."""
    is_fraction = plan.reading.is_assigned and not plan.reading.is_whole
    return is_fraction and all(_NEVER_SET.fullmatch(metric.name) for metric in plan.metrics)


def _gap_below(plan: LinePlan) -> int:
    """How many lines a line may be below its heading."""
    if plan.reading.is_member:
        return _MAX_GAP
    return 2 if len(plan.metrics) > 2 and all(is_quality(metric.name) for metric in plan.metrics) else 1
