"""Placements: where a line gets its step and epoch from, by its plan and the state of its context.

What a line tells those below hardly ever depends on its numbers. So all lines of a plan that follow the same
state are placed alike; a placement names the sources of their positions.
"""

from __future__ import annotations

from typing import NamedTuple

from batchai_magics.metrics.measurement import MetricName
from batchai_magics.metrics.reading.line_plan import LinePlan

FAR = 16  # lines; no block has as many without a number


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


class SpecialLine(NamedTuple):
    """The rare parts of a placement.

    `metrics`: the numbers are kept as these, or with a time that needs the year of lines above; None if
    neither. `is_twin`: the line below may repeat its number. `is_of_new_epoch`, `is_redrawn`: does not apply
    to a line with the epoch above, or at the position of the numbers read last.
    """

    metrics: tuple[MetricName, ...] | None
    is_twin: bool
    is_of_new_epoch: bool
    is_redrawn: bool


class LinePlacement(NamedTuple):
    """Where a line gets its position from, and what its context tells the lines below.

    Each integer is the value of a `Source`, or 0 for none. `is_own`: the numbers are kept as the plan's
    metrics.
    """

    step: int
    epoch: int
    step_below: int
    epoch_below: int
    step_of_phase: int
    is_own: bool
    special: SpecialLine | None
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
