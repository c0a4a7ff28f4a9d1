"""Lines that repeat in the same order, period after period: their numbers are placed a column at a time.

What the lines of a period tell each other hardly ever depends on their numbers. So a period is entered twice
with the *sources* of numbers instead of numbers. If the second one leaves the context as the first did, all
that follow are placed alike: each number where its source says.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain, compress, count, islice
from operator import eq, is_not
from typing import Any, NamedTuple, cast

from batchai_magics.metrics.grammar.parsed_line import LineKind
from batchai_magics.metrics.measurement import MetricName
from batchai_magics.metrics.reading.line_context import OBJECT_KINDS, LineContext, Placed
from batchai_magics.metrics.reading.line_groups import PlanLines
from batchai_magics.metrics.reading.line_plan import LinePlan

_MIN_PERIODS = 8
_MIN_LINES = 160  # fewer are entered one by one in less time, as those of 4 KiB of a log that grows
_MAX_LEAD = 2  # periods
_MAX_PERIOD = 256  # lines
_MAX_TRIES = 8
_STRIDE = 8  # lines between two of which a period may begin
_FAR = 16  # lines, of which no block has as many without a number
_KINDS = (*OBJECT_KINDS, LineKind.STEP, LineKind.HEADING, LineKind.LOOSE, LineKind.PHASE, LineKind.RULE)
_POSITIONS = ("step", "epoch", "phase_step")
_FLAGS = ("phase", "is_list", "is_known", "is_phase_new", "may_open_settings", "step_plan")
_LINES = ("heading_line", "step_line", "phase_line")


class Repeat(NamedTuple):
    """Lines that repeat: the row of the first one, the lines of a period, and how many periods there are."""

    begin: int
    size: int
    periods: int


class Source(NamedTuple):
    """Where a number comes from: a field of a line in its period, or in the one that many periods above.

    The line is -1 if the number was there before.
    """

    line: int
    field: str | int
    age: int = 0


Position = Source | None


class LinePlacement(NamedTuple):
    """Where the numbers of a line stand, and the metrics that they are, in the order of its plan."""

    step: Position
    epoch: Position
    metrics: tuple[MetricName, ...]


class NotAlikeError(Exception):
    """The lines of periods are not placed alike."""


def repeats_in(owners: Sequence[object]) -> Iterator[Repeat]:
    """The stretches of lines that repeat, given what reads each line."""
    row = 0
    while len(owners) - row >= _MIN_LINES:
        repeat = _repeat_at(owners, row)
        if repeat:
            yield repeat
        row += repeat.size * repeat.periods if repeat else _STRIDE


def _repeat_at(owners: Sequence[object], row: int) -> Repeat | None:
    at = row
    for _ in range(_MAX_TRIES if owners[row] is not None else 0):
        try:
            at = owners.index(owners[row], at + 1, row + _MAX_PERIOD + 1)
        except ValueError:
            return None
        size = at - row
        end = at + (_MIN_PERIODS - 1) * size
        if owners[row : end - size] == owners[at:end]:  # else the count, slow far below, is too small
            differ = map(is_not, islice(owners, at, None), islice(owners, row, None))
            alike_count = next(compress(count(), differ), len(owners) - at)
            periods = alike_count // size + 1
            if periods >= _MIN_PERIODS and periods * size >= _MIN_LINES:
                return Repeat(row, size, periods)
    return None


def may_repeat(plan: LinePlan) -> bool:
    """Whether lines of a plan are placed alike, whatever their numbers are: no bars, and none beside one."""
    reading = plan.reading
    is_of_bar = reading.is_bar or plan.is_of_bar or (reading.is_dict and reading.step is None)
    is_known = reading.kind in _KINDS and reading.kind is not LineKind.YEAR
    return is_known and not is_of_bar and plan.layout.clock.glog_at < 0 and plan.layout.rank < 0


class Placements:
    """Where the lines of all periods are placed, but for those of the first ones.

    Args:
        context: What the lines above have told; it stays as it is.
        plans: The plans of the period's lines; None for a line of which nothing is read.
        number: The number of its first line.
        has_rank: Whether the file's rank is known.

    Raises:
        NotAlikeError: They are not placed alike.
    """

    def __init__(
        self, context: LineContext, plans: Sequence[LinePlan | None], number: int, *, has_rank: bool
    ) -> None:
        self.lines: list[LinePlacement | None] = []
        self.before: dict[Source, Any] = {}  # the numbers that were there
        self.distinct: list[tuple[tuple[Position, Position], tuple[Position, Position]]] = []
        """Epochs and steps, of which two that are equal in a period would make the lines others."""
        self.lead = 0
        """How many periods are entered line by line, after which all others are placed alike."""
        self._context = copy(context)
        _replace_numbers(self._context, self._source_before)
        state: object = None
        for self.lead in range(_MAX_LEAD + 1):
            begin, self._end = number + self.lead * len(plans), number + (self.lead + 1) * len(plans)
            self.distinct = []
            self.lines = [
                None if plan is None else self._place(plan, begin + line, line, has_rank=has_rank)
                for line, plan in enumerate(plans)
            ]
            _replace_numbers(self._context, _aged)
            before, state = state, _state(self._context, self._end)
            if state == before:
                return
        raise NotAlikeError

    def leave(self, context: LineContext, end: int, last: Callable[[Source], Any]) -> None:
        """Leave a context as the last of the periods does.

        Args:
            context: What is told to the lines below.
            end: The number of the first of them.
            last: The number of a source in the last period.
        """
        left = copy(self._context)
        _replace_numbers(left, lambda _, source: last(_younger(source)))
        for name in (*_POSITIONS, *_FLAGS, "twin", "reported", "reported_at"):
            setattr(context, name, getattr(left, name))
        for name in _LINES:
            if (distance := self._end - getattr(left, name)) <= _FAR:
                setattr(context, name, end - distance)

    def _source_before(self, name: str, number: Any) -> Source:
        source = Source(-1, name)
        self.before[source] = number
        return source

    def _place(self, plan: LinePlan, number: int, line: int, *, has_rank: bool) -> LinePlacement | None:
        """Enter a line with the sources of its numbers."""
        layout = plan.layout
        step = Source(line, "step") if layout.step >= 0 else None
        epoch = Source(line, "epoch") if layout.epoch >= 0 else None
        sources = [Source(line, index) for index in range(len(plan.metrics))]
        numbers = [*zip(plan.metrics, sources, strict=True)]
        try:
            placed = self._enter(plan, number, cast("Placed", (step, epoch, numbers)), has_rank=has_rank)
        except TypeError as error:  # numbers are compared
            raise NotAlikeError from error
        if placed is None:
            return None
        at_step, at_epoch, kept = cast("Any", placed)
        metrics = tuple(metric for metric, _ in kept)
        has_length = layout.total >= 0 and metrics != plan.metrics  # of one of the metrics
        if has_length or [source for _, source in kept] != sources:
            raise NotAlikeError
        return LinePlacement(at_step, at_epoch, metrics)

    def _enter(self, plan: LinePlan, number: int, told: Placed, *, has_rank: bool) -> Placed | None:
        """What the context makes of a line."""
        context, reading, (step, epoch, numbers) = self._context, plan.reading, told
        if plan.is_simple:
            epoch = context.epoch if epoch is None and reading.kind is LineKind.STEP else epoch
            context.note(step, epoch)
            context.step_line, context.step_plan = number, plan
            return step, epoch, numbers
        if plan.is_member and not has_rank and context.enter_member(plan, number):
            return context.step, context.epoch, numbers
        if reading.kind in OBJECT_KINDS:
            if reading.kind is LineKind.REDRAWN:  # numbers that were drawn there before are not new
                self._expect_distinct((context.epoch if epoch is None else epoch, step), context.reported_at)
            return context.enter_object(reading.kind, *told)
        if reading.kind in (LineKind.HEADING, LineKind.PHASE):  # that of the epoch above changes no phase
            self._expect_distinct((epoch, None), (context.epoch, None))
        if reading.is_member and context.step_line == number - 2:
            raise NotAlikeError  # what the line above says decides
        placed = context.enter(plan, number, *told)
        if reading.kind is LineKind.STEP:
            context.step_line, context.step_plan = number, plan
        return placed

    def _expect_distinct(self, position: tuple[Any, Any], other: tuple[Any, Any]) -> None:
        """Note an epoch and a step that must not be others in any period, lest the line is read otherwise."""
        if position != (None, None):
            self.distinct.append((position, other))


class RepeatedColumns:
    """The numbers of lines that repeat, as columns of their groups.

    Args:
        groups: What reads each line of a period, whose lines are the next ones of the groups.
        count: How many periods there are.
        before: The numbers that were there before.
    """

    def __init__(self, groups: Sequence[PlanLines | None], count: int, before: dict[Source, Any]) -> None:
        self._groups, self._count, self._before = groups, count, before
        self._sizes = Counter(filter(None, groups))
        self._slices: list[slice] = []
        seen = Counter[PlanLines]()
        for group in groups:
            begin, size = (group.next_index + seen[group], self._sizes[group]) if group else (0, 1)
            self._slices.append(slice(begin, begin + size * count, size))
            seen.update([group] if group else ())

    def column(self, source: Position) -> Sequence[Any]:
        """The numbers of a source in all periods."""
        if source is None or source.line < 0:
            return [source and self._before[source]] * self._count
        group, own = cast("PlanLines", self._groups[source.line]), self._slices[source.line]
        shift = source.age * own.step
        lists = {"step": group.steps, "epoch": group.epochs}
        numbers: Any = group.values[source.field] if isinstance(source.field, int) else lists[source.field]
        return cast("Sequence[Any]", numbers[own.start - shift : own.stop - shift : own.step])

    def last(self, source: Source) -> Any:
        """The number of a source in the last period."""
        return self.column(source)[-1]

    def are_distinct(self, pairs: Iterable[tuple[tuple[Position, Position], ...]]) -> bool:
        """Whether two positions of a pair are different in each period."""
        for (epoch, step), (other_epoch, other_step) in pairs:
            same_epochs = map(eq, self.column(epoch), self.column(other_epoch))
            same_steps = map(eq, self.column(step), self.column(other_step))
            if any(map(bool.__and__, same_epochs, same_steps)):
                return False
        return True

    def place(self, placements: Sequence[LinePlacement | None]) -> list[PlanLines]:
        """Keep the numbers of all lines at their positions; gives those whose metrics are others."""
        placed, others = list[tuple[list[Any], slice, Sequence[Any]]](), list[PlanLines]()
        kept = defaultdict[PlanLines, list[range]](list)
        for line, (group, own, placement) in enumerate(
            zip(self._groups, self._slices, placements, strict=True)
        ):
            if group is None or placement is None:
                continue
            steps, epochs = self.column(placement.step), self.column(placement.epoch)
            if placement.metrics != group.plan.metrics:
                others.append(_with_metrics(placement.metrics, group, own, steps, epochs))
                continue
            kept[group].append(range(own.start, own.stop, own.step))
            if placement.step != Source(line, "step"):
                placed.append((group.steps, own, steps))
            if placement.epoch != Source(line, "epoch"):
                placed.append((group.epochs, own, epochs))
        for numbers, own, column in placed:
            numbers[own] = column
        for group, indices in kept.items():
            group.kept += indices[0] if len(indices) == 1 else sorted(chain.from_iterable(indices))
        for group, size in self._sizes.items():
            group.next_index += size * self._count
        return others


def _with_metrics(
    metrics: tuple[MetricName, ...], group: PlanLines, own: slice, steps: Sequence[Any], epochs: Sequence[Any]
) -> PlanLines:
    """Some lines of a group, all of whose numbers are those of other metrics at these positions."""
    lines = PlanLines(replace(group.plan, metrics=metrics, length_of=""), group.lines)
    lines.rows, lines.ranks = group.rows[own], group.ranks[own]
    lines.steps, lines.epochs = [*steps], [*epochs]
    lines.ends, lines.times = group.ends[own], group.times[own]
    lines.values = [column[own] for column in group.values]
    lines.kept = [*range(len(lines.rows))]
    return lines


def _replace_numbers(context: LineContext, change: Callable[[str, Any], Any]) -> None:
    """Change all numbers that a context has of lines without bars, given the name of each."""
    for name in _POSITIONS:
        if (number := getattr(context, name)) is not None:
            setattr(context, name, change(name, number))
    if context.twin:
        name, number, phase = context.twin
        context.twin = name, change("twin", number), phase
    epoch, step = (
        None if number is None else change(f"reported {place}", number)
        for place, number in zip(("epoch", "step"), context.reported_at, strict=True)
    )
    context.reported_at = epoch, step
    context.reported = {
        name: change(f"reported as {name}", number) for name, number in context.reported.items()
    }


def _aged(_: str, source: Source) -> Source:
    """A source a period later."""
    return source if source.line < 0 else source._replace(age=source.age + 1)


def _younger(source: Source) -> Source:
    return source if source.line < 0 else source._replace(age=source.age - 1)


def _state(context: LineContext, number: int) -> tuple[object, ...]:
    """All that a context tells to the line with this number, which depends on no bar."""
    names = (*_POSITIONS, *_FLAGS, "twin", "reported", "reported_at")
    distances = (min(_FAR + 1, number - getattr(context, name)) for name in _LINES)
    return (*map(context.__getattribute__, names), *distances)
