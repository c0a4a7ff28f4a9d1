"""Caches where lines have their positions from, each learned from the first line of a plan in a state.

What a line tells those below hardly ever depends on its numbers. So all lines of a plan that follow the same
state of a context are placed alike. To learn how, a line is entered with *sources* instead of its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, cast

from batchai_magics.metrics.grammar.parsed_line import LineKind
from batchai_magics.metrics.measurement import MetricName
from batchai_magics.metrics.reading.line_context import FAR, ContextState, LineContext, Placed
from batchai_magics.metrics.reading.line_plan import LinePlan

_MAX_PLACEMENTS = 1 << 16  # of all states

Position = tuple[int | None, float | None]
"""A step and an epoch."""

Above = tuple[int | None, float | None, int | None]
"""The step, the epoch and the step of the phase that lines above tell."""

Sources = tuple[None, int | None, float | None, int | None, float | None, int | None]
"""Where numbers of a position come from: nowhere, the line's own step and epoch, or the lines above."""


class _Source:
    """Stands for a number. Comparing it with another one raises, as their order depends on the line."""

    def __init__(self, index: int) -> None:
        self.index = index  # in `Sources`

    def __eq__(self, other: object) -> bool:
        if other is None or other is self:
            return other is self
        raise TypeError("the numbers of a line are unknown")

    __hash__ = None  # type: ignore[assignment]  # equal sources are one object


_OWN_STEP, _OWN_EPOCH, _STEP_ABOVE, _EPOCH_ABOVE, _STEP_OF_PHASE = map(_Source, range(1, 6))


@dataclass(frozen=True, slots=True, eq=False)
class LinePlacement:
    """Where a line has its position from, and what its context tells the lines below.

    Attributes:
        metrics: The metrics of its numbers; None if these are not kept.
        is_own: No more is to be kept than its numbers, as the metrics of its plan.
        position: Picks its step and epoch; None if they are its own.
        told: Picks what the lines below are told; None if it is what this line is told.
        has_twin: A line below may repeat its number.
        is_redrawn: It does not apply at the position of the numbers that were read last.
        below: The state of the context below.
    """

    metrics: tuple[MetricName, ...] | None
    is_own: bool
    position: Callable[[Sources], Position] | None
    told: Callable[[Sources], Above] | None
    has_twin: bool
    is_redrawn: bool
    below: PlacedState


class PlacedState:
    """A state of contexts, and the placements of lines right below it, by plan.

    `is_of_block`: the line that led to the state belongs to the block below a heading. `further`: the states
    if lines without numbers follow, by their count.
    """

    __slots__ = ("further", "is_of_block", "placements", "state")

    def __init__(self, state: ContextState) -> None:
        self.state = state
        is_of_phase = state.phase is not None and state.to_phase == 0
        self.is_of_block = state.to_heading == 0 or is_of_phase
        self.placements: dict[LinePlan, LinePlacement | None] = {}
        self.further: dict[int, PlacedState] = {}


class PlacementCache:
    """The placements of one file's lines."""

    def __init__(self) -> None:
        self._states: dict[ContextState, PlacedState] = {}
        self._count = 0  # placements

    def state_of(self, context: LineContext, line: int) -> PlacedState:
        """The state of a context after this line of its process; the context keeps it from here on."""
        if context.state is None:
            context.state, context.line = context.state_at(line), line
            context.twin_number = context.twin[1] if context.twin else 0
        return self.further_below(self._of(context.state), line - context.line)

    def further_below(self, placed: PlacedState, line_count: int) -> PlacedState:
        """The state after this many lines without numbers."""
        line_count = min(line_count, FAR)
        further = placed.further.get(line_count)
        if further is None:
            further = placed.further[line_count] = self._of(placed.state.further_below(line_count))
        return further

    def find(self, placed: PlacedState, plan: LinePlan) -> LinePlacement | None:
        """How the next line is placed; None if that depends on its numbers."""
        if plan not in placed.placements:
            if self._count >= _MAX_PLACEMENTS:
                self._forget()
            placed.placements[plan] = None if plan.is_beside_bar else self._learn(placed.state, plan)
            self._count += 1
        return placed.placements[plan]

    def _forget(self) -> None:
        for state in self._states.values():  # contexts may still refer to them
            state.placements.clear()
            state.further.clear()
        self._states.clear()
        self._count = 0

    def _of(self, state: ContextState) -> PlacedState:
        known = self._states.get(state)
        if known is None:
            known = self._states[state] = PlacedState(state)
        return known

    def _learn(self, state: ContextState, plan: LinePlan) -> LinePlacement | None:
        """Enter a line with sources for numbers; None if its placement depends on the numbers."""
        context = LineContext(state.is_of_file)
        context.restore(state, -1)
        if plan.reading.is_member and context.step_line == -2:
            return None  # what the line above says decides
        above: Any = (
            _STEP_ABOVE if state.has_step else None,
            _EPOCH_ABOVE if state.has_epoch else None,
            _STEP_OF_PHASE if state.has_step_of_phase else None,
        )
        context.step, context.epoch, context.phase_step = above
        step, epoch = (
            _OWN_STEP if plan.layout.step >= 0 else None,
            _OWN_EPOCH if plan.layout.epoch >= 0 else None,
        )
        numbers = [(metric, object()) for metric in plan.metrics]
        try:
            placed = context.enter(plan, 0, *cast("Placed", (step, epoch, numbers)))
        except TypeError:  # numbers are compared
            return None
        if plan.is_simple:
            context.note_step_line(plan, 0)
        *position, placed_numbers = placed or (step, epoch, numbers)
        if [number for _, number in placed_numbers] != [number for _, number in numbers]:
            return None
        metrics = tuple([metric for metric, _ in placed_numbers]) if placed else None
        told: Any = (context.step, context.epoch, context.phase_step)
        is_own = metrics == plan.metrics and plan.layout.clock.glog_at < 0
        has_twin = context.twin is not None and context.twin[1] is not context.twin_number
        is_redrawn = plan.reading.kind is LineKind.REDRAWN
        return LinePlacement(
            metrics=plan.metrics if metrics == plan.metrics else metrics,
            is_own=is_own and not (has_twin or is_redrawn),
            position=_picker(cast("Any", position), (step, epoch)),
            told=_picker(told, above),
            has_twin=has_twin,
            is_redrawn=is_redrawn,
            below=self._of(context.state_at(0)),
        )


def _picker(sources: Sequence[_Source | None], known: Sequence[_Source | None]) -> Any:
    """Picks the numbers of some sources from all; None if these are the known ones."""
    if all(source is other for source, other in zip(sources, known, strict=True)):
        return None
    return itemgetter(*[0 if source is None else source.index for source in sources])
