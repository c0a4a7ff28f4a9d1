"""Queries of Slurm's controller and accounting, in batches; their replies are cached for all processes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.service.file_repository import FileClock, try_lock
from batchai_magics.backends.service.runner import Run
from batchai_magics.backends.slurm.client import SlurmClient
from batchai_magics.backends.slurm.node.attempt_ends import EndState, end_state_of
from batchai_magics.backends.slurm.node.run_files import SlurmSubmission
from batchai_magics.backends.slurm.parse import SEPARATOR, JobLine, NodeLine
from batchai_magics.backends.slurm.sbatch import job_name
from batchai_magics.errors import BatchAIError, ServiceError
from batchai_magics.untrusted_files import read_json

MAX_TTL_S = 60.0  # the longest interval between two queries
TTL_DIVISOR = 10  # TTL = time without changes / TTL_DIVISOR
NEW_JOB_INTERVAL_S = 1.5  # interval between two queries about new jobs
_POLL_S = 0.05
MTIME_ROUNDING_S = 2.0  # file systems may round mtimes down by this much
FIRST_QUERY_TIMEOUT_S = 3.0  # how long to wait for another process's first query
Query = Callable[[], Sequence[tuple[Any, ...]]]
UNKNOWN_JOB = JobLine("", "", "", "", "", "")  # stands for a job that Slurm does not know


class Observation(NamedTuple):
    """Slurm's report on an attempt, and the time of the query."""

    asked: float
    line: JobLine


class CachedReply(NamedTuple):
    """A cached reply: its lines, when Slurm sent it, since when it is unchanged, and the last try."""

    asked: float
    changed: float
    tried: float
    lines: tuple[tuple[Any, ...], ...]

    def ttl_s(self, look_s: float) -> float:
        """The TTL: it grows with the time since the last change; none where `look_s` is 0."""
        if not look_s:
            return 0.0
        return min(max(MAX_TTL_S, look_s), max(look_s, (self.asked - self.changed) / TTL_DIVISOR))


class QueryCache:
    """Slurm's latest replies to this user; ServiceError if Slurm is unreachable and nothing is cached."""

    def __init__(self, slurm: SlurmClient, folder: Path, look_s: float, clock: FileClock) -> None:
        self._slurm, self._folder, self._look_s = slurm, folder, look_s
        self._suffix = f"-{hashlib.sha256(slurm.conf.encode()).hexdigest()[:8]}" if slurm.conf else ""
        self.clock = clock
        self._locks = {name: threading.Lock() for name in ("jobs", "nodes")}
        self._unsaved: dict[Path, CachedReply] = {}  # not written: the disk is full

    @property
    def files(self) -> Sequence[Path]:
        """The cache files."""
        return [self._file(name) for name in ("jobs", "nodes")]

    @property
    def new_job_interval_s(self) -> float:
        """The minimum interval between queries about new jobs."""
        return min(NEW_JOB_INTERVAL_S, self._look_s)

    def jobs(self, *, since: float = 0.0, max_age_s: float = math.inf) -> tuple[float, dict[str, JobLine]]:
        """This user's jobs by number, and the time of the query.

        Not from before `since`, and at most `max_age_s` old, unless Slurm is unreachable or was queried just
        now.
        """
        cached = self._latest("jobs", lambda: list(self._slurm.jobs().values()), since, max_age_s)
        return cached.asked, {line[0]: JobLine(*line) for line in cached.lines}

    def of_job(self, number: str, *, since: float, max_age_s: float = math.inf) -> Observation | None:
        """Slurm's report on a job after `since`; `UNKNOWN_JOB` for an unknown one, None without a report."""
        try:
            asked, lines = self.jobs(since=since, max_age_s=max_age_s)
        except ServiceError:
            return None
        return Observation(asked, lines.get(number, UNKNOWN_JOB)) if asked > since else None

    def nodes(self, *, since: float = 0.0) -> list[NodeLine]:
        """The nodes of all partitions."""
        return [NodeLine(*line) for line in self._latest("nodes", self._slurm.nodes, since).lines]

    def silence(self, name: str) -> str:
        """That Slurm did not answer the latest query, `jobs` or `nodes`, and since when; empty if it did."""
        cached = self._cached(self._file(name))
        if cached is None or cached.tried <= cached.asked:
            return ""
        since = datetime.fromtimestamp(cached.asked, timezone.utc)
        return f"Slurm has not answered since {since:%Y-%m-%d %H:%M:%S} UTC: shown is what it said then"

    def configuration(self) -> dict[str, str]:
        """Slurm's configuration, queried now."""
        return self._slurm.configuration()

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}-{self._slurm.machine.user}{self._suffix}.json"

    def _latest(
        self, name: str, query: Query, since: float = 0.0, max_age_s: float = math.inf
    ) -> CachedReply:
        """The cached reply or a new one; a stale one while another thread queries."""
        file, lock = self._file(name), self._locks[name]
        cached = self._cached(file)
        if cached and self._is_fresh(cached, since, max_age_s):
            return cached
        if not lock.acquire(blocking=cached is None) and cached:
            return cached
        try:
            newer = self._cached(file)
            if newer and self._is_fresh(newer, since, max_age_s):
                return newer
            return self._refresh(file, query, newer)
        finally:
            lock.release()

    def _cached(self, file: Path) -> CachedReply | None:
        saved = _read(file)
        unsaved = self._unsaved.get(file)
        return max((each for each in (saved, unsaved) if each), key=lambda each: each.tried, default=None)

    def _is_fresh(self, cached: CachedReply, since: float, max_age_s: float) -> bool:
        limit_s = cached.ttl_s(self._look_s)
        is_silent = cached.tried > cached.asked
        if not is_silent:
            limit_s = (
                self.new_job_interval_s
                if cached.asked < since
                else min(limit_s, max(max_age_s, self.new_job_interval_s))
            )
        age_s = self.clock.age_s(cached.tried)
        return (age_s if age_s > -MTIME_ROUNDING_S else math.inf) < limit_s

    def _refresh(self, file: Path, query: Query, before: CachedReply | None) -> CachedReply:
        """A new reply; while another process queries, the cached one or what that process gets.

        The other process may wait for a controller that never responds, so it is not waited for long.
        """
        lock = file.with_suffix(".lock")
        is_ours = True
        with private_files.left_for_later_if_full():
            is_ours = try_lock(lock)
        if not is_ours:
            known = before or _wait_for_first(file)
            return known or self._store(file, _query(query, None, self.clock.now()))
        try:
            cached = _read(file)
            is_newer = cached and (before is None or cached.tried > before.tried)
            newer = cached if is_newer else None  # another process queried just before
            reply = newer or _query(query, before, self.clock.now())
        except BaseException:
            lock.unlink(missing_ok=True)
            raise
        if newer:
            lock.unlink(missing_ok=True)
            return newer
        return self._store(file, reply, lock)

    def _store(self, file: Path, reply: CachedReply, lock: Path | None = None) -> CachedReply:
        """Caches the reply for all processes, if the disk has room; releases the lock."""
        self._unsaved[file] = reply
        with private_files.left_for_later_if_full():
            with private_files.pipelined(file):
                private_files.write(file, json.dumps(reply))
                if lock:
                    lock.unlink(missing_ok=True)
            del self._unsaved[file]
            return reply
        if lock:
            lock.unlink(missing_ok=True)
        return reply


def _wait_for_first(file: Path) -> CachedReply | None:
    """The result of another process's first query; None if that takes long."""
    deadline = time.monotonic() + FIRST_QUERY_TIMEOUT_S
    while (reply := _read(file)) is None and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return reply


def _query(query: Query, before: CachedReply | None, now: float) -> CachedReply:
    try:
        lines = tuple(tuple(line) for line in query())
    except ServiceError:
        if before is None:
            raise
        return before._replace(tried=now)  # the previous reply is the best that is known
    is_same = before is not None and before.lines == lines
    return CachedReply(now, before.changed if before and is_same else now, now, lines)


def _read(file: Path) -> CachedReply | None:
    try:
        asked, changed, tried, lines = read_json(file)
    except (FileNotFoundError, ValueError):
        return None
    return CachedReply(asked, changed, tried, tuple(tuple(line) for line in lines))


FIELDS = ("JobID", "State", "ExitCode", "Submit", "End", "JobName", "Comment")
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
    def end_state(self) -> EndState | None:
        """The state in which it ended; None if it has not."""
        return end_state_of(self.state)

    @property
    def description(self) -> str:
        """How it ended, a sentence without its period: `Slurm's accounting says FAILED with exit code 3`."""
        match = _EXIT.fullmatch(self.exit_code)
        code, signal = (int(part) for part in match.groups()) if match else (0, 0)
        state = re.sub(r" by (\d+)$", r" by the user with number \1", self.state)
        words = f"{state}{f' with exit code {code}' * bool(code)}{f' by signal {signal}' * bool(signal)}"
        return f"Slurm's accounting says {words}"


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


def ended_job(
    jobs: Iterable[PastJob], number: str, *, guid: str, name: str, submitted: float
) -> PastJob | None:
    """An attempt of a run that has ended; None if it is not among these jobs.

    Slurm reuses job numbers, and users reuse names: the comment (the guid) or the submit time identifies the
    attempt.
    """

    def is_own(job: PastJob) -> bool:
        if job.number != number or job.comment:
            return job.number == number and job.comment == guid
        return job.name == job_name(name) and job.submitted >= submitted - _MAX_CLOCK_SKEW_S

    own = sorted(filter(is_own, jobs), key=lambda job: job.submitted)
    return own[-1] if own and own[-1].end_state else None


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
        self, run: Run, submission: SlurmSubmission, others: Callable[[], Collection[str]]
    ) -> PastJob | None:
        """An attempt of a run that has ended; `others` are job numbers to query at the same time.

        None if unknown: there is no accounting, it does not respond, or it has no record of that end.
        """
        number = submission.slurm_job
        with self._lock:
            if time.monotonic() - self._queried.get(number, -TTL_S) >= TTL_S and self._is_available():
                self._query({number, *others()})
            known = self._jobs
        return ended_job(known, number, guid=run.guid, name=run.name, submitted=submission.time)

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
