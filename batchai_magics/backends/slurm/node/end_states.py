"""Slurm's final job states, and what each means for our jobs."""

from __future__ import annotations

import enum
import signal
from collections.abc import Mapping

from batchai_magics.backends.node.outcome import REQUEUE, Outcome, failed_with, stopped

LOST = "JobNodeLost"
TERMINATED = 128 + signal.SIGTERM  # the exit code of a process that SIGTERM ended


class EndState(enum.Enum):
    """The final state of an allocation, as Slurm reports it."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    DEADLINE = "DEADLINE"
    NODE_FAIL = "NODE_FAIL"
    BOOT_FAIL = "BOOT_FAIL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    PREEMPTED = "PREEMPTED"
    LAUNCH_FAILED = "LAUNCH_FAILED"
    REVOKED = "REVOKED"
    GONE = ""  # Slurm has no record of it any more


_ERRORS = {
    EndState.COMPLETED: (
        "JobSupervisorLost",
        "Slurm reports that the job's script has ended, but the script reported no status",
    ),
    EndState.FAILED: ("JobSupervisorLost", "The job's supervisor on its first node failed"),
    EndState.CANCELLED: (
        "JobTerminated",
        "The job was cancelled in Slurm: by scancel, or by an administrator",
    ),
    EndState.TIMEOUT: ("JobMaxWallClockTimeReached", "The job reached the time limit of its partition"),
    EndState.DEADLINE: ("JobMaxWallClockTimeReached", "The job reached its deadline in Slurm"),
    EndState.NODE_FAIL: (LOST, "A node of the job was lost"),
    EndState.BOOT_FAIL: (LOST, "A node of the job could not be started"),
    EndState.OUT_OF_MEMORY: ("JobOutOfMemory", "The job used more memory than Slurm gave it"),
    EndState.PREEMPTED: ("JobPreempted", "Slurm took the job's nodes for another job"),
    EndState.LAUNCH_FAILED: ("JobLaunchFailed", "Slurm could not start the job on its nodes"),
    EndState.REVOKED: ("JobTerminated", "The job was revoked in Slurm"),
    EndState.GONE: ("JobSupervisorLost", "Slurm no longer knows the job, and it reported no status"),
}


def end_state_of(state: str) -> EndState | None:
    """The final state that Slurm's text stands for; None for a pending or running job.

    `CANCELLED by 1000` and `CANCELLED+` are states too.
    """
    word = state.partition(" ")[0].rstrip("+")
    return EndState(word) if word in {each.value for each in EndState} else None


def lost(problems: Mapping[str, str]) -> Outcome:
    """The outcome of a job that lost nodes, with Slurm's report on each; empty if the nodes are unknown."""
    text = _ERRORS[EndState.NODE_FAIL][1]
    if not problems:
        return failed_with(LOST, text)
    named = ", ".join(f"{name} ({problem})" if problem else name for name, problem in problems.items())
    return failed_with(LOST, f"{text}: {named}", NodeId=",".join(problems))


def outcome_of(ending: EndState, *, reason: str = "") -> Outcome:
    """The end of a job that left none itself; `reason` is why it had been asked to end, if it was."""
    if reason and reason != REQUEUE:
        return stopped(reason)
    code, text = _ERRORS[ending]
    return failed_with(code, text)
