"""Where the numbers of lines stand that come in the same state of a context, and what that state is.

What lines tell each other hardly ever depends on their numbers. So all lines of a plan that come in a state
are placed alike, each number where its source says.
"""

from __future__ import annotations

from typing import NamedTuple

from batchai_magics.metrics.measurement import MetricName
from batchai_magics.metrics.reading.line_plan import LinePlan

FAR = 16  # lines, of which no block has as many without a number


class ContextState(NamedTuple):
    """All that a context tells to the lines below, but for numbers and what only bars need.

    The distances are those of the last heading, step line and heading of a phase; `twin` has no number.
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
        """The same so many lines below."""
        distances = self.to_heading, self.to_step, self.to_phase
        to_heading, to_step, to_phase = (min(each + line_count, FAR) for each in distances)
        return self._replace(to_heading=to_heading, to_step=to_step, to_phase=to_phase)


class SpecialLine(NamedTuple):
    """What is rare: numbers that are kept as those of other `metrics`, or with a time that lines above tell.

    `is_twin`: the line below may repeat its number. `is_of_new_epoch`, `is_redrawn`: a line with the epoch
    above, or at the position of the numbers that were read last, is placed otherwise.
    """

    metrics: tuple[MetricName, ...] | None
    is_twin: bool
    is_of_new_epoch: bool
    is_redrawn: bool


class Placement(NamedTuple):
    """What becomes of a line, and what its context tells to those below.

    Each number is a place among these: none, the step and the epoch on the line, the step and the epoch
    above, the step of the phase. `is_own`: its numbers are kept as those of its plan.
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
    """A state of contexts, and how lines of each plan right below are placed.

    `is_of_block`: the line that left the state belongs to the block below a heading.
    """

    __slots__ = ("further", "is_of_block", "placements", "state")

    def __init__(self, state: ContextState) -> None:
        self.state = state
        is_of_phase = state.phase is not None and state.to_phase == 0
        self.is_of_block = state.to_heading == 0 or is_of_phase
        self.placements: dict[LinePlan, Placement | None] = {}
        self.further: dict[int, PlacedState] = {}
