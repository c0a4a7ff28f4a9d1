"""The query cache: Slurm's latest answers, asked for by one process of a user and shared by all of them.

The longer nothing changes, the less often Slurm is asked. All times are of the shared file system's clock.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from batchai_magics.backends.folders.file_clock import FileClock
from batchai_magics.backends.folders.file_repository import try_lock
from batchai_magics.backends.folders.full_disk import left_for_later
from batchai_magics.backends.service import private_files
from batchai_magics.backends.slurm.client import SlurmClient
from batchai_magics.backends.slurm.parse import JobLine, NodeLine
from batchai_magics.errors import ServiceError

LONGEST_S = 60.0  # the longest interval between two queries
CALM = 10  # a query every tenth of the time that nothing has changed
NEWS_S = 1.5  # between two queries about new jobs
PAUSE_S = 0.05
ROUNDED_S = 2.0  # by which file systems may round the times of files down
FIRST_S = 3.0  # how long another process's first question is waited for
Ask = Callable[[], Sequence[tuple[Any, ...]]]
GONE = JobLine("", "", "", "", "", "")  # of a job that Slurm does not know


class Observation(NamedTuple):
    """Slurm's report on an attempt, and when it was asked for."""

    asked: float
    line: JobLine


class CachedAnswer(NamedTuple):
    """The lines of an answer: when Slurm gave it, since when it is unchanged, when Slurm was asked last."""

    asked: float
    changed: float
    tried: float
    lines: tuple[tuple[Any, ...], ...]

    def age_allowed_s(self, look_s: float) -> float:
        """The TTL: the longer nothing has changed, the longer."""
        return min(max(LONGEST_S, look_s), max(look_s, (self.asked - self.changed) / CALM))


class QueryCache:
    """Slurm's latest answers to this user; ServiceError if Slurm cannot be asked and nothing is cached."""

    def __init__(self, slurm: SlurmClient, folder: Path, look_s: float, clock: FileClock) -> None:
        self._slurm, self._folder, self._look_s = slurm, folder, look_s
        self._suffix = f"-{hashlib.sha256(slurm.conf.encode()).hexdigest()[:8]}" if slurm.conf else ""
        self.clock = clock
        self._asking = {name: threading.Lock() for name in ("jobs", "nodes")}
        self._unkept: dict[Path, CachedAnswer] = {}  # answers for which there is no room in the folder

    @property
    def files(self) -> Sequence[Path]:
        """The cache files."""
        return [self._file(name) for name in ("jobs", "nodes")]

    @property
    def news_s(self) -> float:
        """How soon Slurm is asked about a new job, and how often at most it is asked for news."""
        return min(NEWS_S, self._look_s)

    def jobs(self, *, since: float = 0.0, within_s: float = math.inf) -> tuple[float, dict[str, JobLine]]:
        """This user's jobs by number, and when that was so.

        Not before `since`, and not longer ago than `within_s`, unless Slurm is silent or was asked just now.
        """
        found = self._latest("jobs", lambda: list(self._slurm.jobs().values()), since, within_s)
        return found.asked, {line[0]: JobLine(*line) for line in found.lines}

    def of_job(self, number: str, *, since: float, within_s: float = math.inf) -> Observation | None:
        """Slurm's report on a job after `since`; `GONE` if it no longer knows it, None if not asked yet."""
        try:
            asked, lines = self.jobs(since=since, within_s=within_s)
        except ServiceError:
            return None
        return Observation(asked, lines.get(number, GONE)) if asked > since else None

    def nodes(self, *, since: float = 0.0) -> list[NodeLine]:
        """The nodes of all partitions."""
        return [NodeLine(*line) for line in self._latest("nodes", self._slurm.nodes, since).lines]

    def configuration(self) -> dict[str, str]:
        """How Slurm is set up, asked now."""
        return self._slurm.configuration()

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}-{self._slurm.machine.user}{self._suffix}.json"

    def _latest(self, name: str, ask: Ask, since: float = 0.0, within_s: float = math.inf) -> CachedAnswer:
        """The answer that is kept, or a new one; what is kept also while another thread asks."""
        file, lock = self._file(name), self._asking[name]
        found = self._known(file)
        if found and self._is_good(found, since, within_s):
            return found
        if not lock.acquire(blocking=found is None) and found:
            return found
        try:
            newer = self._known(file)
            if newer and self._is_good(newer, since, within_s):
                return newer
            return self._ask(file, ask, newer)
        finally:
            lock.release()

    def _known(self, file: Path) -> CachedAnswer | None:
        return _latest_of(_read(file), self._unkept.get(file))

    def _is_good(self, found: CachedAnswer, since: float, within_s: float) -> bool:
        limit_s = found.age_allowed_s(self._look_s)
        is_silent = found.tried > found.asked
        if not is_silent:
            limit_s = self.news_s if found.asked < since else min(limit_s, max(within_s, self.news_s))
        return self._age_s(found) < limit_s

    def _ask(self, file: Path, ask: Ask, before: CachedAnswer | None) -> CachedAnswer:
        """A new answer; while another process asks, what was said before, or what that one gets.

        That one may wait for a controller which never answers: it is not waited for long.
        """
        lock = file.with_suffix(".lock")
        if not _is_taken(lock):
            known = before or _first(file)
            return known or self._store(file, _renewed(ask, None, self.clock.now()))
        try:
            newer = _newer(file, before)  # another was done just before
            answer = newer or _renewed(ask, before, self.clock.now())
        except BaseException:
            lock.unlink(missing_ok=True)
            raise
        if newer:
            lock.unlink(missing_ok=True)
            return newer
        return self._store(file, answer, lock)

    def _store(self, file: Path, answer: CachedAnswer, lock: Path | None = None) -> CachedAnswer:
        """The answer, kept for everybody where there is room for it; gives the lock up."""
        self._unkept[file] = answer
        with left_for_later():
            with private_files.at_once(file):
                private_files.write(file, json.dumps(answer))
                if lock:
                    lock.unlink(missing_ok=True)
            del self._unkept[file]
            return answer
        if lock:
            lock.unlink(missing_ok=True)
        return answer

    def _age_s(self, answer: CachedAnswer) -> float:
        """How long ago Slurm was asked; one of the future, by a clock that was set since, is too old."""
        age_s = self.clock.age_s(answer.tried)
        return age_s if age_s > -ROUNDED_S else math.inf


def _is_taken(lock: Path) -> bool:
    """Takes a lock, unless somebody has it; where there is no room for one everybody asks for himself."""
    is_ours = True
    with left_for_later():
        is_ours = try_lock(lock)
    return is_ours


def _first(file: Path) -> CachedAnswer | None:
    """What another process is told that asks for the first time; None where that takes long."""
    deadline = time.monotonic() + FIRST_S
    while (answer := _read(file)) is None and time.monotonic() < deadline:
        time.sleep(PAUSE_S)
    return answer


def _newer(file: Path, before: CachedAnswer | None) -> CachedAnswer | None:
    answer = _read(file)
    return answer if answer and (before is None or answer.tried > before.tried) else None


def _latest_of(kept: CachedAnswer | None, unkept: CachedAnswer | None) -> CachedAnswer | None:
    return max((each for each in (kept, unkept) if each), key=lambda each: each.tried, default=None)


def _renewed(ask: Ask, before: CachedAnswer | None, now: float) -> CachedAnswer:
    try:
        lines = tuple(tuple(line) for line in ask())
    except ServiceError:
        if before is None:
            raise
        return before._replace(tried=now)  # what was so is the best that is known
    is_same = before is not None and before.lines == lines
    return CachedAnswer(now, before.changed if before and is_same else now, now, lines)


def _read(file: Path) -> CachedAnswer | None:
    try:
        asked, changed, tried, lines = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return CachedAnswer(asked, changed, tried, tuple(tuple(line) for line in lines))
