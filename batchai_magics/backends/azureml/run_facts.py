"""What is known of a run beside its job: the details in the run history, exits of ranks, attempts."""

from __future__ import annotations

from dataclasses import dataclass

from batchai_magics.backends.azureml.run_details import RunDetails
from batchai_magics.models.job_execution import Attempt, RankExit

NO_DETAILS = RunDetails("NotStarted")


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run beside its job.

    Attributes:
        details: Its times, errors and logs in the run history.
        ranks: The exit of each process, first failure first; empty where unknown.
        attempts: Its attempts, if the service started it again; else empty.
    """

    details: RunDetails = NO_DETAILS
    ranks: tuple[RankExit, ...] = ()
    attempts: tuple[Attempt, ...] = ()

    @property
    def exit_code(self) -> int | None:
        """The exit code of the first process that failed, else 0; None where unknown."""
        codes = [rank.exit_code for rank in self.ranks if rank.exit_code is not None]
        if codes:
            return next((code for code in codes if code), 0)
        return self.details.exit_code
