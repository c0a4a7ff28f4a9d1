"""Slurm's accounting (sacct): how jobs ended that the controller has forgotten, queried in batches."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from batchai_magics.backends.service.runner import Run
from batchai_magics.backends.slurm.cli_args import SEPARATOR, job_name
from batchai_magics.backends.slurm.client import SlurmClient
from batchai_magics.backends.slurm.node.end_states import EndState, end_state_of
from batchai_magics.backends.slurm.node.run_files import Submission
from batchai_magics.errors import BatchAIError

FIELDS = ("JobIDRaw", "State", "ExitCode", "Submit", "End", "JobName", "Comment")
TIMES = {"SLURM_TIME_FORMAT": "%s"}  # sets the output format of times: seconds since 1970
_MAX_CLOCK_SKEW_S = 3600.0  # the largest clock difference expected between two machines
_STORED = "slurmdbd"
_EXIT = re.compile(r"(\d+):(\d+)")  # exit code and signal


class PastJob(NamedTuple):
    """A job, or one attempt of it, in the accounting database; not every cluster stores comments."""

    number: str
    state: str  # `CANCELLED by 1000` includes who cancelled it
    exit_code: str  # exit code of its batch script and the signal that ended it: `3:0`
    submitted: float  # seconds since 1970
    ended: float  # seconds since 1970; 0.0 if unknown
    name: str
    comment: str

    @property
    def description(self) -> str:
        """How it ended, as reported by accounting: `FAILED with exit code 3`."""
        match = _EXIT.fullmatch(self.exit_code)
        code, signal = (int(part) for part in match.groups()) if match else (0, 0)
        state = re.sub(r" by (\d+)$", r" by the user with number \1", self.state)
        return f"{state}{f' with exit code {code}' * bool(code)}{f' by signal {signal}' * bool(signal)}"


class AccountedEnd(NamedTuple):
    """How an attempt ended."""

    ending: EndState
    ended: float = 0.0  # seconds since 1970; 0.0 if unknown
    description: str = ""  # from accounting, a sentence without a full stop


def sacct_args(numbers: Collection[str]) -> list[str]:
    """The sacct command for all jobs that ever had these numbers, without their steps."""
    return [
        "sacct",
        "--noheader",
        "--allocations",
        "--duplicates",
        "--parsable2",
        f"--delimiter={SEPARATOR}",
        f"--jobs={','.join(numbers)}",
        f"--format={','.join(FIELDS)}",
    ]


def has_accounting(configuration: Mapping[str, str]) -> bool:
    """Whether a cluster with this configuration has accounting that can be queried."""
    return configuration.get("AccountingStorageType", "").rpartition("/")[2] == _STORED


def parse_past_jobs(text: str) -> list[PastJob]:
    """Parses the output of `sacct`, in its order."""
    rows = (line.split(SEPARATOR) for line in text.splitlines())
    return [
        PastJob(number, state, code, _seconds(submit), _seconds(end), name, comment)
        for number, state, code, submit, end, name, comment in (
            row for row in rows if len(row) == len(FIELDS)
        )
    ]


def accounted_end(
    jobs: Iterable[PastJob], number: str, *, guid: str, name: str, submitted: float
) -> AccountedEnd | None:
    """How an attempt of a run ended; None if it is not among these jobs.

    Slurm reuses job numbers, and users reuse names: the comment (the guid) or the submit time identifies the
    attempt.
    """

    def is_own(job: PastJob) -> bool:
        if job.number != number or job.comment:
            return job.number == number and job.comment == guid
        return job.name == job_name(name) and job.submitted >= submitted - _MAX_CLOCK_SKEW_S

    own = sorted(filter(is_own, jobs), key=lambda job: job.submitted)
    ending = end_state_of(own[-1].state) if own else None
    return (
        AccountedEnd(ending, own[-1].ended, f"Slurm's accounting says {own[-1].description}")
        if ending
        else None
    )


def _seconds(text: str) -> float:
    """A time in seconds; 0.0 for `Unknown` and `None`."""
    return float(text) if text.isdigit() else 0.0


TTL_S = 60.0  # cache TTL


class PolledTogether(threading.local):
    """The runs that the current thread polls as one batch."""

    def __init__(self) -> None:
        self.runs: Collection[Run] = ()

    @contextlib.contextmanager
    def of(self, runs: Collection[Run]) -> Iterator[None]:
        """Sets the batch within the context; an enclosing batch takes precedence."""
        before = self.runs
        self.runs = before or runs
        try:
            yield
        finally:
            self.runs = before


class AccountingCache:
    """Cached queries of Slurm's accounting, if there is any. Thread-safe."""

    def __init__(self, slurm: SlurmClient) -> None:
        self._slurm = slurm
        self._lock = threading.Lock()
        self._available: bool | None = None
        self._queried: dict[str, float] = {}  # time of the query, by job number
        self._jobs: Sequence[PastJob] = ()

    def of(
        self, run: Run, submission: Submission, others: Callable[[], Collection[str]]
    ) -> AccountedEnd | None:
        """How an attempt of a run ended; `others` are job numbers to query at the same time.

        None if unknown: there is no accounting, it does not respond, or it has no record of that end.
        """
        number = submission.slurm_job
        with self._lock:
            if time.monotonic() - self._queried.get(number, -TTL_S) >= TTL_S and self._is_available():
                self._query({number, *others()})
            known = self._jobs
        return accounted_end(known, number, guid=run.guid, name=run.name, submitted=submission.time)

    def _query(self, numbers: Collection[str]) -> None:
        try:
            jobs = parse_past_jobs(self._slurm.accounting(sacct_args(sorted(numbers)), TIMES))
        except BatchAIError:  # sacct is not installed here, or its database is down
            jobs = []
        self._queried, self._jobs = dict.fromkeys(numbers, time.monotonic()), jobs

    def _is_available(self) -> bool:
        """Whether accounting is configured; queried once."""
        if self._available is None:
            try:
                self._available = has_accounting(self._slurm.configuration())
            except BatchAIError:
                return False
        return self._available
