"""Jobs of the past: the line that asks accounting for them, and what it answers, as values. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from batchai_magics.backends.slurm.node.endings import Ending, ending_of
from batchai_magics.backends.slurm.say import SEPARATOR, job_name

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


class Kept(NamedTuple):
    """How an attempt ended."""

    ending: Ending
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


def is_kept(configuration: Mapping[str, str]) -> bool:
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


def kept(found: Iterable[PastJob], number: str, *, guid: str, name: str, submitted: float) -> Kept | None:
    """How an attempt at a run ended; None where that is not among them. Numbers and names are used again."""

    def is_own(job: PastJob) -> bool:
        if job.number != number or job.comment:
            return job.number == number and job.comment == guid
        return job.name == job_name(name) and job.submitted >= submitted - _ALIKE_S

    own = sorted(filter(is_own, found), key=lambda job: job.submitted)
    ending = ending_of(own[-1].state) if own else None
    return Kept(ending, own[-1].ended, f"Slurm's accounting says {own[-1].words}") if ending else None


def _seconds(text: str) -> float:
    """A time; `Unknown` and `None` are none."""
    return float(text) if text.isdigit() else 0.0
