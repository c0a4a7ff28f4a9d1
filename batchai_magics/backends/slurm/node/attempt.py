"""One beginning of a run: why the one before it was over, and whether another has followed.

Slurm may begin a job again: because a node was lost, another job took its nodes, or somebody wants it. The
program of the one before may still run then, on a node that Slurm no longer reaches.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from batchai_magics.backends.node import execution_log
from batchai_magics.backends.slurm.node.end_states import EndState
from batchai_magics.backends.slurm.node.run_files import AttemptEnd, AttemptStart, RunFiles
from batchai_magics.launch.plan import Plan

FENCE_S = 10.0  # what a program that nobody reaches gets to see that the run has been begun again
_AGAIN_S = 0.1
UNTOLD = "it left no word: its node was lost, or its program was killed"
_REASONS = {
    "JOB REQUEUE": "somebody had Slurm queue it again",
    "PREEMPTION": "Slurm took its nodes for another job",
    "NODE FAILURE": "Slurm lost a node of it",
}
_ENDINGS = {
    "PREEMPTION": EndState.PREEMPTED,
    "TIME LIMIT": EndState.TIMEOUT,
    "NODE FAILURE": EndState.NODE_FAIL,
}
# Of a limit that Slurm's own accounting watches, and of the kernel's, by a control group.
_MEMORY = re.compile(r"exceeded (?:job |step )?memory limit|oom[-_]kill event", re.IGNORECASE)
_SAID = re.compile(r"\*\*\* JOB \S+ ON \S+ CANCELLED AT \S+ DUE TO ([A-Z ]+?)(?:, SEE .*)? \*\*\*")


class Attempt:
    """The beginning of a run that this program is."""

    def __init__(self, files: RunFiles, attempt: int) -> None:
        self._files, self.attempt = files, attempt
        self.restarts = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
        self.reason = ""  # why it is over, where Slurm does not know better
        self._before = files.attempts()

    @property
    def number(self) -> int:
        """Which of the run's beginnings it is, from 1."""
        return len(self._before) + 1

    @property
    def is_superseded(self) -> bool:
        """Whether the run has been begun once more: its nodes and its files are no longer this program's."""
        return self._files.is_superseded(self.attempt, self.restarts)

    def of_its_own(self, plan: Plan) -> Plan:
        """The plan with a folder for exits that no beginning before has used."""
        return plan if self.number == 1 else plan._replace(exits=f"{plan.exits}-{self.number}")

    def begin(self, nodes: list[str]) -> None:
        """Notes that it runs, and waits until the one before runs no more, or cannot be waited for."""
        job = os.environ["SLURM_JOB_ID"]
        self._files.note_attempt_start(
            self.attempt, AttemptStart(job, tuple(nodes), time.time(), self.restarts)
        )
        deadline = time.monotonic() + FENCE_S
        while self._before and not self._left_before and time.monotonic() < deadline:
            time.sleep(_AGAIN_S)

    def leave(self) -> None:
        """Notes that it is over and the run is not; what was noted first stands."""
        words = self.reason or _REASONS.get(batch_log_text(self._files.batch_log), _REASONS["JOB REQUEUE"])
        self._files.note_attempt_end(self.attempt, self.restarts, AttemptEnd(words, time.time()))

    def mark(self, log: Path, nodes: list[str]) -> str:
        """Writes into a log where it begins, unless it is the first; gives the sentence."""
        if not self._before:
            return ""
        left = self._left_before
        return execution_log.mark_attempt(log, self.number, nodes, left.reason if left else UNTOLD)

    @property
    def _left_before(self) -> AttemptEnd | None:
        return self._files.attempts()[self.number - 2][1] if self._before else None


def batch_log_text(batch_log: Path) -> str:
    """Why Slurm ended the script last, in its own capital words; empty where it did not say."""
    reasons = _SAID.findall(_text(batch_log))
    return reasons[-1] if reasons else ""


def logged_end(batch_log: Path) -> EndState | None:
    """How the script ended, by what Slurm wrote into its log; None where that tells nothing."""
    return (
        EndState.OUT_OF_MEMORY
        if _MEMORY.search(_text(batch_log))
        else _ENDINGS.get(batch_log_text(batch_log))
    )


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
