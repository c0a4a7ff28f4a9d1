"""Queries of Slurm's controller and accounting, in batches; their replies are cached for all processes."""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.service.file_repository import FileClock
from batchai_magics.backends.service.row_files import try_lock
from batchai_magics.backends.service.runner import Run
from batchai_magics.backends.slurm.client import SlurmClient
from batchai_magics.backends.slurm.node.run_files import SlurmSubmission
from batchai_magics.backends.slurm.parse import UNKNOWN_JOB, NodeLine, SlurmJob
from batchai_magics.backends.slurm.sbatch import job_name
from batchai_magics.errors import BatchAIError, ServiceError
from batchai_magics.untrusted_files import read_json

MAX_TTL_S = 60.0  # the longest interval between two queries
TTL_DIVISOR = 10  # TTL = time without changes / TTL_DIVISOR
NEW_JOB_INTERVAL_S = 1.5  # minimum interval between two queries about new jobs
_POLL_S = 0.05
MTIME_ROUNDING_S = 2.0  # file systems may round mtimes down by this much
Query = Callable[[], Sequence[tuple[Any, ...]]]


class CachedReply(NamedTuple):
    """A cached reply: its lines, when it was received, since when it is unchanged, and the last try."""

    received: float
    changed: float
    tried: float
    lines: tuple[tuple[Any, ...], ...]

    def ttl_s(self, look_s: float) -> float:
        """The TTL: it grows with the time since the last change; none where `look_s` is 0."""
        if not look_s:
            return 0.0
        return min(max(MAX_TTL_S, look_s), max(look_s, (self.received - self.changed) / TTL_DIVISOR))


class QueryCache:
    """Slurm's latest replies to this user; ServiceError if Slurm is unreachable and nothing is cached."""

    first_query_timeout_s = 3.0  # how long to wait for another process's first query

    def __init__(self, slurm: SlurmClient, folder: Path, look_s: float, clock: FileClock) -> None:
        self._slurm, self._folder, self._look_s = slurm, folder, look_s
        self.new_job_interval_s = min(NEW_JOB_INTERVAL_S, look_s)
        self._suffix = f"-{hashlib.sha256(slurm.conf.encode()).hexdigest()[:8]}" if slurm.conf else ""
        self.clock = clock
        self._locks = {name: threading.Lock() for name in ("jobs", "nodes")}
        self._unsaved: dict[Path, CachedReply] = {}  # not written: the disk is full

    @property
    def files(self) -> Sequence[Path]:
        """The cache files."""
        return [self._file(name) for name in ("jobs", "nodes")]

    def jobs(self, *, since: float = 0.0, max_age_s: float = math.inf) -> tuple[float, dict[str, SlurmJob]]:
        """This user's jobs by number, and the time of the query.

        The reply is later than `since` and at most `max_age_s` old, unless Slurm is unreachable or was just
        queried.
        """
        cached = self._latest("jobs", lambda: list(self._slurm.jobs().values()), since, max_age_s)
        return cached.received, {line[0]: SlurmJob(*line) for line in cached.lines}

    def of_job(self, number: str, *, since: float, max_age_s: float = math.inf) -> SlurmJob | None:
        """Slurm's report on a job after `since`; `UNKNOWN_JOB` for an unknown one, None without a report."""
        try:
            received, lines = self.jobs(since=since, max_age_s=max_age_s)
        except ServiceError:
            return None
        return lines.get(number, UNKNOWN_JOB)._replace(reported=received) if received > since else None

    def nodes(self, *, since: float = 0.0) -> list[NodeLine]:
        """The nodes of all partitions."""
        return [NodeLine(*line) for line in self._latest("nodes", self._slurm.nodes, since).lines]

    def silence(self, name: str) -> str:
        """A sentence if Slurm did not answer the latest query, `jobs` or `nodes`; empty if it did."""
        cached = self._cached(self._file(name))
        if cached is None or cached.tried <= cached.received:
            return ""
        since = datetime.fromtimestamp(cached.received, timezone.utc)
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
        return max(
            (reply for reply in (saved, unsaved) if reply), key=lambda reply: reply.tried, default=None
        )

    def _is_fresh(self, cached: CachedReply, since: float, max_age_s: float) -> bool:
        limit_s = cached.ttl_s(self._look_s)
        is_silent = cached.tried > cached.received
        if not is_silent:
            limit_s = (
                self.new_job_interval_s
                if cached.received < since
                else min(limit_s, max(max_age_s, self.new_job_interval_s))
            )
        age_s = self.clock.age_s(cached.tried)
        return (age_s if age_s > -MTIME_ROUNDING_S else math.inf) < limit_s

    def _refresh(self, file: Path, query: Query, before: CachedReply | None) -> CachedReply:
        """A new reply; while another process queries, the cached reply or that of the other process.

        The wait for the other process is short, since the controller may never respond to it.
        """
        lock = file.with_suffix(".lock")
        is_ours = True
        with private_files.left_for_later_if_full():
            is_ours = try_lock(lock)
        if not is_ours:
            known, deadline = before, time.monotonic() + self.first_query_timeout_s
            while known is None and time.monotonic() < deadline:
                time.sleep(_POLL_S)
                known = _read(file)
            return known or self._store(file, _query(query, None, self.clock.now()))
        try:
            newer = _read(file)
            if newer and (before is None or newer.tried > before.tried):  # another process was faster
                lock.unlink(missing_ok=True)
                return newer
            reply = _query(query, before, self.clock.now())
        except BaseException:
            lock.unlink(missing_ok=True)
            raise
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
        received, changed, tried, lines = read_json(file)
    except (FileNotFoundError, ValueError):
        return None
    return CachedReply(received, changed, tried, tuple(tuple(line) for line in lines))


TTL_S = 60.0  # cache TTL
MAX_CLOCK_SKEW_S = 3600.0  # the largest clock difference expected between two machines
_STORED = "slurmdbd"


class AccountingCache:
    """Cached queries of Slurm's accounting, if there is any. Thread-safe."""

    def __init__(self, slurm: SlurmClient) -> None:
        self._slurm = slurm
        self._lock = threading.Lock()
        self._available: bool | None = None
        self._queried: dict[str, float] = {}  # time of the query, by job number
        self._jobs: Sequence[SlurmJob] = ()

    def of(
        self, run: Run, submission: SlurmSubmission, others: Callable[[], Collection[str]]
    ) -> SlurmJob | None:
        """An attempt of a run that has ended; `others` are job numbers to query at the same time.

        None if unknown: there is no accounting, it does not respond, or it has no record of that end.
        """
        number = submission.slurm_job
        with self._lock:
            if time.monotonic() - self._queried.get(number, -TTL_S) >= TTL_S and self._is_available():
                numbers = {number, *others()}
                try:
                    self._jobs = self._slurm.past_jobs(numbers)
                except BatchAIError:  # sacct is not installed here, or its database is down
                    self._jobs = []
                self._queried = dict.fromkeys(numbers, time.monotonic())
            known = self._jobs
        return ended_job(known, number, guid=run.guid, name=run.name, submitted=submission.time)

    def _is_available(self) -> bool:
        """Whether accounting is configured; queried once."""
        if self._available is None:
            try:
                kind = self._slurm.configuration().get("AccountingStorageType", "")
                self._available = kind.rpartition("/")[2] == _STORED
            except BatchAIError:
                return False
        return self._available


def ended_job(
    jobs: Iterable[SlurmJob], number: str, *, guid: str, name: str, submitted: float
) -> SlurmJob | None:
    """An attempt of a run that has ended; None if it is not among these jobs.

    Slurm reuses job numbers, and users reuse names: the comment (the guid) or the submit time identifies the
    attempt.
    """

    def is_own(job: SlurmJob) -> bool:
        if job.number != number or job.comment:
            return job.number == number and job.comment == guid
        return job.name == job_name(name) and job.submitted >= submitted - MAX_CLOCK_SKEW_S

    matching = sorted(filter(is_own, jobs), key=lambda job: job.submitted)
    return matching[-1] if matching and matching[-1].end_state else None
