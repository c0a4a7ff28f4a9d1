"""What Slurm has said lately: asked by one process of a user at a time, and kept for all of them.

The longer nothing changes, the more rarely it is asked. All times are of the shared file system's clock.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from batchai_magics.backends.folders.file_clock import FileClock
from batchai_magics.backends.folders.full_disk import left_for_later
from batchai_magics.backends.service import private_files
from batchai_magics.backends.slurm.records import try_lock
from batchai_magics.backends.slurm.talk import Slurm
from batchai_magics.backends.slurm.understand import JobLine, NodeLine
from batchai_magics.errors import ServiceError

LONGEST_S = 60.0  # between two questions, however long nothing has changed
CALM = 10  # the share of the time without a change that passes until the next question
PAUSE_S = 0.05
ROUNDED_S = 2.0  # by which file systems may round the times of files down
FIRST_S = 60.0  # how long another process's first question is waited for
GONE = JobLine("", "", "", "", "", "")  # of a job that Slurm does not know


class Heard(NamedTuple):
    """What Slurm has said of an attempt, and when it was asked."""

    asked: float
    line: JobLine


class Answer(NamedTuple):
    """Lines of an answer, when they were so, since when they are the same, and when Slurm was asked last."""

    asked: float
    changed: float
    tried: float
    lines: tuple[tuple[Any, ...], ...]

    def age_allowed_s(self, look_s: float) -> float:
        """How old it may be and still be good."""
        return min(max(LONGEST_S, look_s), max(look_s, (self.asked - self.changed) / CALM))


class Answers:
    """The latest answers of a Slurm to this user. ServiceError where there is none and none is to be had."""

    def __init__(self, slurm: Slurm, folder: Path, look_s: float, clock: FileClock) -> None:
        self._slurm, self._folder, self._look_s = slurm, folder, look_s
        self.clock = clock
        self._lock = threading.Lock()
        self._unkept: dict[Path, Answer] = {}  # answers for which there is no room in the folder

    @property
    def files(self) -> Sequence[Path]:
        """Where they are kept."""
        return [self._file(name) for name in ("jobs", "nodes")]

    def jobs(self, *, since: float = 0.0) -> tuple[float, dict[str, JobLine]]:
        """This user's jobs by number, and when that was so; not before `since` unless Slurm is silent."""
        found = self._latest("jobs", lambda: list(self._slurm.jobs().values()), since)
        return found.asked, {line[0]: JobLine(*line) for line in found.lines}

    def of_job(self, number: str, *, since: float) -> Heard | None:
        """What Slurm has said of a job since; `GONE` when it knows it no longer. None where nobody knows."""
        try:
            asked, lines = self.jobs(since=since)
        except ServiceError:
            return None
        return Heard(asked, lines.get(number, GONE)) if asked > since else None

    def nodes(self, *, since: float = 0.0) -> list[NodeLine]:
        """The nodes of all partitions."""
        return [NodeLine(*line) for line in self._latest("nodes", self._slurm.nodes, since).lines]

    def configuration(self) -> dict[str, str]:
        """How Slurm is set up, asked now."""
        return self._slurm.configuration()

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}-{self._slurm.machine.user}.json"

    def _latest(self, name: str, ask: Callable[[], Sequence[tuple[Any, ...]]], since: float) -> Answer:
        file = self._file(name)
        with self._lock:
            found = _later(_read(file), self._unkept.get(file))
            if found and self._age_s(found) < found.age_allowed_s(self._look_s):
                is_silent = found.tried > found.asked
                if found.asked >= since or is_silent:
                    return found
            return self._asked(file, ask, found)

    def _asked(
        self, file: Path, ask: Callable[[], Sequence[tuple[Any, ...]]], before: Answer | None
    ) -> Answer:
        """A new answer; where another process is asking, what was said before, or what it gets."""
        lock = file.with_suffix(".lock")
        deadline = time.monotonic() + FIRST_S
        while not _is_taken(lock):
            if newer := _newer(file, before):
                return newer
            if time.monotonic() > deadline:
                raise ServiceError("Slurm does not answer", code="SlurmUnavailable", hint="Try again later.")
            time.sleep(PAUSE_S)
        try:
            if answer := _newer(file, before):  # another was done just before
                lock.unlink(missing_ok=True)
            else:
                answer = _renewed(ask, before, self.clock.now())
                self._keep(file, lock, answer)
        except BaseException:
            lock.unlink(missing_ok=True)
            raise
        return answer

    def _keep(self, file: Path, lock: Path, answer: Answer) -> None:
        """Keeps an answer for everybody, where there is room for it, and gives the lock up."""
        self._unkept[file] = answer
        with left_for_later():
            with private_files.at_once(file):
                private_files.write(file, json.dumps(answer))
                lock.unlink(missing_ok=True)
            del self._unkept[file]
            return
        lock.unlink(missing_ok=True)

    def _age_s(self, answer: Answer) -> float:
        """How long ago Slurm was asked; one of the future, by a clock that was set since, is too old."""
        age_s = self.clock.age_s(answer.tried)
        return age_s if age_s > -ROUNDED_S else math.inf


def _is_taken(lock: Path) -> bool:
    """Takes a lock, unless somebody has it; where there is no room for one everybody asks for himself."""
    is_ours = True
    with left_for_later():
        is_ours = try_lock(lock)
    return is_ours


def _newer(file: Path, before: Answer | None) -> Answer | None:
    answer = _read(file)
    return answer if answer and (before is None or answer.tried > before.tried) else None


def _later(kept: Answer | None, unkept: Answer | None) -> Answer | None:
    return max((each for each in (kept, unkept) if each), key=lambda each: each.tried, default=None)


def _renewed(ask: Callable[[], Sequence[tuple[Any, ...]]], before: Answer | None, now: float) -> Answer:
    try:
        lines = tuple(tuple(line) for line in ask())
    except ServiceError:
        if before is None:
            raise
        return before._replace(tried=now)  # what was so is the best that is known
    is_same = before is not None and before.lines == lines
    return Answer(now, before.changed if before and is_same else now, now, lines)


def _read(file: Path) -> Answer | None:
    try:
        asked, changed, tried, lines = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return Answer(asked, changed, tried, tuple(tuple(line) for line in lines))
