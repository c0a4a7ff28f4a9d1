"""One attempt of a run: why the previous one ended, and whether this one is superseded.

Slurm may requeue a job because a node was lost, because of preemption, or on request. The program of the
previous attempt may then still be running on a node that Slurm cannot reach.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from batchai_magics.backends.node import execution_log, restarts
from batchai_magics.backends.slurm.node.end_states import EndState
from batchai_magics.backends.slurm.node.run_files import AttemptEnd, AttemptStart, RunFiles
from batchai_magics.launch.plan import Plan

FENCE_S = 10.0  # how long an unreachable program may take to notice that it is superseded
_POLL_S = 0.1
NOT_REPORTED = "it exited without reporting a status: its node was lost, or its program was killed"
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
# a limit enforced by Slurm's accounting, or by the kernel through a cgroup
_MEMORY = re.compile(r"exceeded (?:job |step )?memory limit|oom[-_]kill event", re.IGNORECASE)
_CANCELLED = re.compile(r"\*\*\* JOB \S+ ON \S+ CANCELLED AT \S+ DUE TO ([A-Z ]+?)(?:, SEE .*)? \*\*\*")


class Attempt:
    """The attempt that this program runs."""

    def __init__(self, files: RunFiles, attempt: int) -> None:
        self._files, self.submission = files, attempt
        self.restarts = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
        self.reason = ""  # why it ended, unless Slurm knows better
        self._previous = files.attempts()

    @property
    def number(self) -> int:
        """Its number among the run's attempts, from 1."""
        return len(self._previous) + 1

    @property
    def is_superseded(self) -> bool:
        """Whether a later attempt has started: nodes and files no longer belong to this program."""
        return self._files.is_superseded(self.submission, self.restarts)

    def with_own_exits(self, plan: Plan) -> Plan:
        """The plan with a folder for exits that no earlier attempt used, and its variables."""
        return self.with_variables(
            plan if self.number == 1 else plan._replace(exits=f"{plan.exits}-{self.number}")
        )

    def with_variables(self, plan: Plan) -> Plan:
        """The plan with the variables of this attempt."""
        return restarts.with_attempt(plan, self.number, self._files.root)

    def start(self, nodes: list[str]) -> None:
        """Records the start, and waits a limited time until the previous attempt has ended."""
        job = os.environ["SLURM_JOB_ID"]
        self._files.note_attempt_start(
            self.submission, AttemptStart(job, tuple(nodes), time.time(), self.restarts)
        )
        deadline = time.monotonic() + FENCE_S
        while self._previous and not self._previous_end and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def record_end(self) -> None:
        """Records that the attempt ended and the run has not; an earlier record takes precedence."""
        words = self.reason or _REASONS.get(batch_log_text(self._files.batch_log), _REASONS["JOB REQUEUE"])
        self._files.note_attempt_end(self.submission, self.restarts, AttemptEnd(words, time.time()))

    def mark(self, log: Path, nodes: list[str]) -> str:
        """Marks in a log where this attempt starts, unless it is the first; returns the sentence."""
        if not self._previous:
            return ""
        end = self._previous_end
        return execution_log.mark_attempt(log, self.number, nodes, end.reason if end else NOT_REPORTED)

    @property
    def _previous_end(self) -> AttemptEnd | None:
        return self._files.attempts()[self.number - 2][1] if self._previous else None


def batch_log_text(batch_log: Path) -> str:
    """Slurm's latest reason for cancelling the script, as it prints it; empty without one."""
    reasons = _CANCELLED.findall(_text(batch_log))
    return reasons[-1] if reasons else ""


def logged_end(batch_log: Path) -> EndState | None:
    """How the script ended, according to Slurm's messages in its log; None if they do not say."""
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
