"""What is known of a run beside its job: the details in the run history, exits of ranks, attempts."""

from __future__ import annotations

from dataclasses import dataclass

from batchai_magics.backends.azureml.run_details import RunDetails
from batchai_magics.models.job_execution import Attempt, RankExit
from batchai_magics.models.response_object import ErrorDetail, NameValue

NO_DETAILS = RunDetails("NotStarted")


@dataclass(frozen=True)
class RunEnd:
    """Why our program on a node ended a run; the exit code is that of a failed preparation."""

    error: ErrorDetail
    exit_code: int | None = None


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run beside its job.

    Attributes:
        details: Its times, errors and logs in the run history.
        ranks: The exit of each process, first failure first; empty where unknown.
        attempts: Its attempts, if the service started it again; else empty.
        end: Why our program on a node ended it: a stop condition, its time limit, a failed preparation.
    """

    details: RunDetails = NO_DETAILS
    ranks: tuple[RankExit, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    end: RunEnd | None = None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the first process that failed, else 0; None where unknown, or ended by us."""
        if self.end:
            return self.end.exit_code
        codes = [rank.exit_code for rank in self.ranks if rank.exit_code is not None]
        if codes:
            return next((code for code in codes if code), 0)
        return self.details.exit_code

    @property
    def errors(self) -> tuple[ErrorDetail, ...]:
        """Why it failed: what our programs recorded, and what the service says."""
        if self.end:  # the service only says that a process of ours has failed
            return (self.end.error,)
        own = [_error_of(rank) for rank in self.ranks[:1] if rank.exit_code]
        return (*own, *self.details.errors)


def _error_of(rank: RankExit) -> ErrorDetail:
    """The error of a job whose first failure is this one."""
    details = {"failedRank": rank.rank, "failedNode": rank.node, "exitCode": rank.exit_code}
    return ErrorDetail(
        code="JobFailed",
        message="Job failed with non-zero exit code",
        details=tuple(NameValue(name=name, value=str(value)) for name, value in details.items()),
    )
