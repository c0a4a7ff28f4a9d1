"""What an attempt is told in a job's folder and by Slurm, and what it tells there."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Sequence
from pathlib import Path

from batchai_magics.backends.node.attempt import poll_for
from batchai_magics.backends.node.launcher import PlanProcesses, Report
from batchai_magics.backends.node.outcome import REQUEUE, stopped
from batchai_magics.backends.node.restarts import RESIZED
from batchai_magics.backends.slurm.node import allocation, run_watching
from batchai_magics.backends.slurm.node.attempt_ends import (
    KILLED,
    TERMINATED,
    EndState,
    RunningAttempt,
    batch_log_text,
    end_state_of,
    logged_end,
    lost,
    outcome_of,
)
from batchai_magics.backends.slurm.node.run_files import RunFiles
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Limits, Plan

# How much later than its children this program may receive a signal that Slurm sends to all.
SIGNAL_DELAY_S = 1.0


class SlurmReport(Report):
    """Brings stop requests from the job's folder and from Slurm, and writes to that folder.

    `is_stopped` is whether the attempt was told to end.
    """

    engine = "Slurm"

    def __init__(self, files: RunFiles, running: RunningAttempt, nodes: Sequence[str], plan: Plan) -> None:
        self._files, self._running, self._nodes, self._python = files, running, nodes, plan.python
        self.deadline = allocation.deadline(plan.limits)
        self.is_stopped = False

    def notes(self, limits: Limits) -> Sequence[str]:
        """The ends at which Slurm gives processes less time to save than the job does."""
        return allocation.short_graces(limits)

    def stop_request(self, *, is_signalled: bool) -> Outcome | None:
        """The outcome if the attempt has to end: for a request in its folder, or as Slurm takes its nodes."""
        outcome = self._request() or (self._lost_allocation() if is_signalled else None)
        self.is_stopped = self.is_stopped or outcome is not None
        return outcome

    def _request(self) -> Outcome | None:
        if end := self._files.end:  # Slurm has lost this node, and the end was recorded elsewhere
            return end
        stop = self._files.stop(self._running.submission)
        if stop and stop.reason == REQUEUE:
            self._running.reason = RESIZED
        if stop:
            return stopped(stop.reason)
        return stopped(REQUEUE) if self._running.is_superseded else None

    def _lost_allocation(self) -> Outcome:
        """The outcome when Slurm takes the nodes: final, or a requeue."""
        fields = allocation.own_fields()
        is_queued = int(fields.get("Restarts") or 0) > self._running.restarts
        if is_queued or (not fields and batch_log_text(self._files.batch_log) == "JOB REQUEUE"):
            self._running.record_end()  # immediately: Slurm gives little notice
            return stopped(REQUEUE)
        state = "NODE_FAIL" if fields.get("Reason") == "NodeDown" else fields.get("JobState", "")
        ending = logged_end(self._files.batch_log) or end_state_of(state)
        if ending is None and allocation.is_preempted(fields):
            ending = EndState.PREEMPTED
        if ending is EndState.NODE_FAIL:
            return lost(allocation.lost_nodes(self._nodes, self._files.batch_log))
        return outcome_of(ending or EndState.CANCELLED)

    def was_ended(self, processes: PlanProcesses) -> bool:
        """Whether Slurm has ended the processes: its signal reaches them and this program in any order."""
        may_be_cut_off = is_cut_off(processes)
        signals = poll_for(processes, SIGNAL_DELAY_S, lambda: may_be_cut_off)
        return signal.SIGTERM in signals or (is_cut_off(processes) and allocation.is_taken())

    def is_hurried(self) -> bool:
        """Whether the processes are to be killed at once."""
        return self._files.kill_request.exists()

    def note_ending(self) -> None:
        """Records that the processes have been told to end."""
        if not self._running.is_superseded:
            with contextlib.suppress(OSError):  # the end of the run says it too
                self._files.note_ending(self._running.submission)

    def warn(self, text: str) -> None:
        """Records that the run is no longer watched."""
        if not self._running.is_superseded:
            with contextlib.suppress(OSError):  # the end of the run has it too
                self._files.note_unwatched(self._running.submission, text)

    def watch_command(self) -> tuple[Sequence[str], Path]:
        """The command of the program that watches the job, and its log."""
        words = run_watching.command(self._files, self._running.submission, self._python)
        return words, self._files.batch_log


def is_cut_off(processes: PlanProcesses) -> bool:
    """Whether processes may have been ended by Slurm."""
    return not processes.ends or any(end.exit_code in (TERMINATED, KILLED, None) for end in processes.ends)
