"""Caches the placements of one file's lines, each learned from the first line of a plan in a state.

To learn a placement, a line is entered with the *sources* of its numbers instead of numbers.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, cast

from batchai_magics.metrics.grammar.parsed_line import LineKind
from batchai_magics.metrics.reading.line_context import LineContext, Placed
from batchai_magics.metrics.reading.line_placement import (
    FAR,
    ContextState,
    LinePlacement,
    PlacedState,
    SpecialLine,
)
from batchai_magics.metrics.reading.line_plan import LinePlan

_MAX_PLACEMENTS = 1 << 16  # of all states


class Source(Enum):
    """Where a number of a position comes from; the value is an index in the numbers that a reader offers."""

    OWN_STEP = 1
    OWN_EPOCH = 2
    STEP_ABOVE = 3
    EPOCH_ABOVE = 4
    STEP_OF_PHASE = 5


_ABOVE = (Source.STEP_ABOVE, Source.EPOCH_ABOVE, Source.STEP_OF_PHASE)


class PlacementCache:
    """The placements of one file's lines."""

    def __init__(self) -> None:
        self._states: dict[ContextState, PlacedState] = {}
        self._count = 0  # placements

    def state_of(self, context: LineContext, line: int) -> PlacedState:
        """The state of a context after this line of its process; the context keeps it from here on."""
        if context.placed is None:
            context.placed, context.line = self._of(context.state_at(line)), line
            context.twin_number = context.twin[1] if context.twin else 0
        return self.further_below(context.placed, line - context.line)

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
        """Enter a line with the sources of its numbers; None if its placement depends on the numbers."""
        context, layout, reading = LineContext(state.is_of_file), plan.layout, plan.reading
        context.restore(state, -1)
        if reading.kind is LineKind.YEAR or (reading.is_member and context.step_line == -2):
            return None  # the number of the year, or what the line above says, decides
        known = state.has_step, state.has_epoch, state.has_step_of_phase
        above = [source if is_known else None for source, is_known in zip(_ABOVE, known, strict=True)]
        context.step, context.epoch, context.phase_step = cast("Any", above)
        step = Source.OWN_STEP if layout.step >= 0 else None
        epoch = Source.OWN_EPOCH if layout.epoch >= 0 else None
        numbers = [(metric, object()) for metric in plan.metrics]
        try:
            placed = context.enter(plan, 0, *cast("Placed", (step, epoch, numbers)))
        except TypeError:  # numbers are compared
            return None
        if plan.is_simple:
            context.note_step_line(plan, 0)
        at_step, at_epoch, placed_numbers = cast("Any", placed or (None, None, []))
        if placed and [number for _, number in placed_numbers] != [number for _, number in numbers]:
            return None
        metrics = tuple(metric for metric, _ in placed_numbers) if placed else None
        is_own = metrics == plan.metrics and layout.clock.glog_at < 0
        is_heading = reading.kind in (LineKind.HEADING, LineKind.PHASE)
        special = SpecialLine(
            None if is_own else plan.metrics if metrics == plan.metrics else metrics,
            context.twin is not None and context.twin[1] is not context.twin_number,
            is_heading and state.phase is not None and state.has_epoch and epoch is not None,
            reading.kind is LineKind.REDRAWN,
        )
        return LinePlacement(
            _source_index(at_step),
            _source_index(at_epoch),
            _source_index(context.step),
            _source_index(context.epoch),
            _source_index(context.phase_step),
            is_own,
            special if any(special) else None,
            self._of(context.state_at(0)),
        )


def _source_index(source: Any) -> int:
    return 0 if source is None else cast("Source", source).value
