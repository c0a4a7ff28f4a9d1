"""Slurm's accounting: how jobs ended that the controller has forgotten, asked for together and cached."""

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
TIMES = {"SLURM_TIME_FORMAT": "%s"}  # in the environment of the line: times in seconds since 1970
_ALIKE_S = 3600.0  # how far the clocks of two machines may be apart
_STORED = "slurmdbd"
_SIGNS = re.compile(r"(\d+):(\d+)")  # of an exit code and a signal


class PastJob(NamedTuple):
    """A job, or an attempt at one, as accounting has kept it; comments are not kept everywhere."""

    number: str
    state: str  # `CANCELLED by 1000` names who did it
    exit_code: str  # of its batch script, and the signal that ended it: `3:0`
    submitted: float  # seconds since 1970
    ended: float  # the same; 0.0 when that is not known
    name: str
    comment: str

    @property
    def words(self) -> str:
        """How it ended, as accounting says it: `FAILED with exit code 3`."""
        match = _SIGNS.fullmatch(self.exit_code)
        code, sign = (int(part) for part in match.groups()) if match else (0, 0)
        state = re.sub(r" by (\d+)$", r" by the user with number \1", self.state)
        return f"{state}{f' with exit code {code}' * bool(code)}{f' by signal {sign}' * bool(sign)}"


class AccountedEnd(NamedTuple):
    """How an attempt ended."""

    ending: EndState
    ended: float = 0.0  # seconds since 1970; 0.0 when that is not known
    words: str = ""  # of accounting, in a sentence without its point


def question(numbers: Collection[str]) -> list[str]:
    """The line that asks for all jobs that have had these numbers, their steps left out."""
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
    """Whether a cluster that is set up so has accounting that can be asked."""
    return configuration.get("AccountingStorageType", "").rpartition("/")[2] == _STORED


def answered(text: str) -> list[PastJob]:
    """What `sacct` answers, in its order."""
    rows = (line.split(SEPARATOR) for line in text.splitlines())
    return [
        PastJob(number, state, code, _seconds(submit), _seconds(end), name, comment)
        for number, state, code, submit, end, name, comment in (
            row for row in rows if len(row) == len(FIELDS)
        )
    ]


def accounted_end(
    found: Iterable[PastJob], number: str, *, guid: str, name: str, submitted: float
) -> AccountedEnd | None:
    """How an attempt at a run ended; None where that is not among them. Numbers and names are used again."""

    def is_own(job: PastJob) -> bool:
        if job.number != number or job.comment:
            return job.number == number and job.comment == guid
        return job.name == job_name(name) and job.submitted >= submitted - _ALIKE_S

    own = sorted(filter(is_own, found), key=lambda job: job.submitted)
    ending = end_state_of(own[-1].state) if own else None
    return AccountedEnd(ending, own[-1].ended, f"Slurm's accounting says {own[-1].words}") if ending else None


def _seconds(text: str) -> float:
    """A time; `Unknown` and `None` are none."""
    return float(text) if text.isdigit() else 0.0


KEPT_S = 60.0  # how long an answer is good


class PolledTogether(threading.local):
    """The runs that this thread looks at together."""

    def __init__(self) -> None:
        self.runs: Collection[Run] = ()

    @contextlib.contextmanager
    def of(self, runs: Collection[Run]) -> Iterator[None]:
        """Within it, these are, unless they are looked at together with others already."""
        before = self.runs
        self.runs = before or runs
        try:
            yield
        finally:
            self.runs = before


class AccountingCache:
    """The accounting of a Slurm, if it has any. Threads may ask at once."""

    def __init__(self, slurm: SlurmClient) -> None:
        self._slurm = slurm
        self._lock = threading.Lock()
        self._is_there: bool | None = None
        self._asked: dict[str, float] = {}  # when, by number
        self._known: Sequence[PastJob] = ()

    def of(
        self, run: Run, submission: Submission, beside: Callable[[], Collection[str]]
    ) -> AccountedEnd | None:
        """How an attempt of a run ended; the numbers `beside` its own are asked for at the same time.

        None where nobody knows: there is no accounting, it does not answer, or it has not heard of that end.
        """
        number = submission.slurm_job
        with self._lock:
            if time.monotonic() - self._asked.get(number, -KEPT_S) >= KEPT_S and self._is_kept():
                self._ask({number, *beside()})
            known = self._known
        return accounted_end(known, number, guid=run.guid, name=run.name, submitted=submission.time)

    def _ask(self, numbers: Collection[str]) -> None:
        try:
            found = answered(self._slurm.past(question(sorted(numbers)), TIMES))
        except BatchAIError:  # it has no program for it here, or its database is down
            found = []
        self._asked, self._known = dict.fromkeys(numbers, time.monotonic()), found

    def _is_kept(self) -> bool:
        """Whether there is any; asked once."""
        if self._is_there is None:
            try:
                self._is_there = has_accounting(self._slurm.configuration())
            except BatchAIError:
                return False
        return self._is_there
