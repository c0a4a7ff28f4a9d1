"""Where jobs, nodes and clusters stand; standard library only, since supervisors start fast."""

from __future__ import annotations

import enum


class ExecutionState(enum.Enum):
    """Where a job stands."""

    QUEUED = "queued"  # waits for enough idle nodes
    RUNNING = "running"  # its processes, or their preparation, run
    TERMINATING = "terminating"  # was told to stop and is stopping
    SUCCEEDED = "succeeded"  # every process ended with exit code 0
    FAILED = "failed"  # ended otherwise; `executionInfo.errors` says why

    @property
    def is_final(self) -> bool:
        """Whether the job has ended."""
        return self in (ExecutionState.SUCCEEDED, ExecutionState.FAILED)


CANCELLED = "cancelled"  # what people call a job that failed because somebody ended it
TERMINATED = "JobTerminated"  # the code of the error that such a job has
STOPPED = "stopped"  # what people call a job that failed because a condition of its own was met
CONDITION_MET = "JobStopConditionMet"  # the code of the error that such a job has


class NodeState(enum.Enum):
    """What a node does."""

    PREPARING = "preparing"  # its folder, mounts and setup task are being made
    IDLE = "idle"  # ready for a job
    RUNNING = "running"  # belongs to a job
    LEAVING = "leaving"  # goes when its job is done with it
    UNUSABLE = "unusable"  # could not be prepared; the cluster's errors say why


class AllocationState(enum.Enum):
    """Whether nodes are being added or removed."""

    STEADY = "steady"
    RESIZING = "resizing"


class DeallocationOption(enum.Enum):
    """What happens to the job of a node that has to leave."""

    REQUEUE = "requeue"
    TERMINATE = "terminate"
    WAIT_FOR_JOB_COMPLETION = "waitforjobcompletion"
