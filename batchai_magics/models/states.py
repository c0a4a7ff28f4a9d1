"""States of jobs, nodes and clusters. Standard library only, for fast supervisor start."""

from __future__ import annotations

import enum


class ExecutionState(enum.Enum):
    """The execution state of a job."""

    QUEUED = "queued"  # waits for enough idle nodes
    RUNNING = "running"  # its processes, or their preparation, run
    TERMINATING = "terminating"  # is being stopped
    SUCCEEDED = "succeeded"  # every process ended with exit code 0
    FAILED = "failed"  # any other end; `executionInfo.errors` says why

    @property
    def is_final(self) -> bool:
        """Whether the job has ended."""
        return self in (ExecutionState.SUCCEEDED, ExecutionState.FAILED)


CANCELLED = "cancelled"  # displayed state of a failed job that was cancelled
TERMINATED = "JobTerminated"  # its error code
STOPPED = "stopped"  # displayed state of a failed job whose stop condition was met
CONDITION_MET = "JobStopConditionMet"  # its error code
DEPENDENCY_FAILED = "DependencyFailed"  # the error code of a job whose predecessor failed
WARNINGS = frozenset(  # the codes of errors that do not make a job fail
    {
        "ExportIncomplete",
        "FilesLeftBehind",
        "ImageNotUsed",
        "JobNotRequeued",
        "MpiNotUsed",
        "RayClusterDiffers",
        "RayUnavailable",
        "RunWarning",
        "SlurmUnavailable",
        "StopConditionNotChecked",
    }
)


class NodeState(enum.Enum):
    """The state of a node."""

    PREPARING = "preparing"  # preparing its folder, mounts and setup task
    IDLE = "idle"  # ready for a job
    RUNNING = "running"  # belongs to a job
    LEAVING = "leaving"  # removed when its job ends
    UNUSABLE = "unusable"  # could not be prepared; the cluster's errors say why
    PREEMPTED = "preempted"  # taken away by its cloud, which replaces it when it can


class AllocationState(enum.Enum):
    """Whether nodes are being added or removed."""

    STEADY = "steady"
    RESIZING = "resizing"


class DeallocationOption(enum.Enum):
    """What happens to the job of a node that is removed."""

    REQUEUE = "requeue"
    TERMINATE = "terminate"
    WAIT_FOR_JOB_COMPLETION = "waitforjobcompletion"
