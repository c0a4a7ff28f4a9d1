"""Why a job has to stop before its own end: somebody wants it, or its time is over."""

from __future__ import annotations

import signal
import time
from collections.abc import Set

from batchai_magics.backends.local.watch.verdict import Verdicts
from batchai_magics.backends.node.outcome import Outcome, stopped, too_long
from batchai_magics.launch.plan import Limits

LOOK_S = 1.0  # between looks at the store without a signal to look


class Interruption:
    """What the store and the clock say of one run, from now on."""

    def __init__(self, verdicts: Verdicts, limits: Limits) -> None:
        self._verdicts, self._limits = verdicts, limits
        self._deadline = time.monotonic() + limits.wall_s
        self._next_look = 0.0

    @property
    def patience_s(self) -> float:
        """How long may be waited before `outcome` is asked for again."""
        return max(0.0, min(LOOK_S, self._deadline - time.monotonic()))

    def outcome(self, heard: Set[int]) -> Outcome | None:
        """How the job ends now, if it has to, after these signals; the store is not asked every time."""
        now_s = time.monotonic()
        if signal.SIGTERM in heard or now_s >= self._next_look:
            self._next_look = now_s + LOOK_S
            reason = self._verdicts.stop_reason()
            if reason:
                return stopped(reason)
        return too_long(self._limits) if now_s >= self._deadline else None
