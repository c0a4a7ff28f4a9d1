"""The time limits of an attempt: the job's own, and Slurm's, whose end it must precede to continue."""

from __future__ import annotations

import math
import time

from batchai_magics.backends.node.outcome import Outcome, time_limit_reached
from batchai_magics.backends.slurm.node import allocation
from batchai_magics.backends.slurm.node.end_states import EndState, outcome_of
from batchai_magics.launch.plan import Limits

MARGIN_S = 30.0  # how long before Slurm's limit an attempt ends that another one is to follow
MARGIN_SHARE = 0.25  # of the time left, at most


class TimeLimits:
    """When an attempt has to end, and when its processes are warned.

    Slurm's own limit is only asked for if the job continues in another attempt or wants a warning.
    """

    def __init__(self, limits: Limits) -> None:
        now_s = time.monotonic()
        is_asked = limits.max_restarts is not None or limits.warn_s
        engine_s = allocation.time_left_s() if is_asked else math.inf
        margin_s = min(MARGIN_S, engine_s * MARGIN_SHARE) if limits.max_restarts is not None else 0.0
        self._limits, self._own = limits, now_s + limits.wall_s
        self._deadline = min(self._own, now_s + engine_s - margin_s)
        self._warning = self._deadline - limits.warn_s

    @property
    def left_s(self) -> float:
        """Seconds until the end; 0 after it."""
        return max(0.0, self._deadline - time.monotonic())

    @property
    def is_warning_due(self) -> bool:
        """Whether the processes are to be warned now, if the job wants that."""
        return time.monotonic() >= self._warning

    @property
    def outcome(self) -> Outcome | None:
        """The outcome if the time is over."""
        if time.monotonic() < self._deadline:
            return None
        is_own = self._deadline == self._own
        return time_limit_reached(self._limits) if is_own else outcome_of(EndState.TIMEOUT)
