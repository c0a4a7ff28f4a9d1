"""The states in which Slurm says that a job has ended, and what each means for a job of ours."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from batchai_magics.backends.node.outcome import REQUEUE, Outcome, failed_with, stopped

LOST = "JobNodeLost"


class EndState(enum.Enum):
    """How Slurm says that an allocation ended."""

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
    GONE = ""  # Slurm knows nothing of it any more


_WORDS = {
    EndState.COMPLETED: (
        "JobSupervisorLost",
        "Slurm says that the job's script is done, and it left no word",
    ),
    EndState.FAILED: ("JobSupervisorLost", "The program that watched over the job on its first node failed"),
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
    EndState.GONE: ("JobSupervisorLost", "Slurm knows the job no longer, and it left no word of its end"),
}


def end_state_of(state: str) -> EndState | None:
    """The ending that a state of Slurm's stands for; None for a job that waits or runs.

    `CANCELLED by 1000` and `CANCELLED+` are states too.
    """
    word = state.partition(" ")[0].rstrip("+")
    return EndState(word) if word in {each.value for each in EndState} else None


def lost(problems: Mapping[str, str]) -> Outcome:
    """The end of a job that has lost these nodes (none: nobody knows which), with what Slurm says of each."""
    text = _WORDS[EndState.NODE_FAIL][1]
    if not problems:
        return failed_with(LOST, text)
    named = ", ".join(f"{name} ({problem})" if problem else name for name, problem in problems.items())
    return failed_with(LOST, f"{text}: {named}", NodeId=",".join(problems))


def outcome_of(ending: EndState, *, reason: str = "") -> Outcome:
    """The end of a job that left none itself; `reason` is why it had been asked to end, if it was."""
    if reason and reason != REQUEUE:
        return stopped(reason)
    code, text = _WORDS[ending]
    return failed_with(code, text)
