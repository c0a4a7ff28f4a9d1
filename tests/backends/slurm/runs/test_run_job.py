"""What the program that runs a job makes of signals."""

from __future__ import annotations

import signal
from typing import cast

from batchai_magics.backends.slurm.node import launchers
from batchai_magics.launch.plan import ProcessExit

CHILD: set[int] = {signal.SIGCHLD}
END: set[int] = {signal.SIGTERM}


class ScriptedLauncher:
    """Processes that were told to end, of which these signals come one after the other."""

    def __init__(self, *signals: set[int]) -> None:
        self.is_running = False
        self.ends = [ProcessExit(rank=0, node="node1", exit_code=launchers.TERMINATED)]
        self._signals = iter(signals)

    def poll(self, timeout_s: float) -> set[int]:
        """The next of them."""
        return next(self._signals)


def test_word_that_the_job_has_to_end_may_come_behind_the_ends_of_all_it_has_started() -> None:
    """Slurm signals all, in any order: a job that is begun again must not be taken to have failed."""
    told = ScriptedLauncher(CHILD, set(), CHILD, END)
    assert launchers.await_ends(cast(launchers.RankLauncher, told)) == CHILD | END
