"""What Slurm has said lately: asked by one process of a user at a time, and kept for all of them.

The longer nothing changes, the more rarely it is asked.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from batchai_magics.backends.service import private_files
from batchai_magics.backends.slurm.records import try_lock
from batchai_magics.backends.slurm.talk import Slurm
from batchai_magics.backends.slurm.understand import JobLine, NodeLine
from batchai_magics.errors import ServiceError

LONGEST_S = 60.0  # between two questions, however long nothing has changed
CALM = 10  # the share of the time without a change that passes until the next question
PAUSE_S = 0.05
FIRST_S = 60.0  # how long another process's first question is waited for


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

    def __init__(self, slurm: Slurm, folder: Path, look_s: float) -> None:
        self._slurm, self._folder, self._look_s = slurm, folder, look_s
        self._lock = threading.Lock()

    def jobs(self, *, since: float = 0.0) -> tuple[float, dict[str, JobLine]]:
        """This user's jobs by number, and when that was so; not before `since` unless Slurm is silent."""
        found = self._latest("jobs", lambda: list(self._slurm.jobs().values()), since)
        return found.asked, {line[0]: JobLine(*line) for line in found.lines}

    def nodes(self, *, since: float = 0.0) -> list[NodeLine]:
        """The nodes of all partitions."""
        return [NodeLine(*line) for line in self._latest("nodes", self._slurm.nodes, since).lines]

    def configuration(self) -> dict[str, str]:
        """How Slurm is set up, asked now."""
        return self._slurm.configuration()

    def _latest(self, name: str, ask: Callable[[], Sequence[tuple[Any, ...]]], since: float) -> Answer:
        file = self._folder / f"{name}-{self._slurm.machine.user}.json"
        with self._lock:
            found = _read(file)
            if found and _age_s(found) < found.age_allowed_s(self._look_s):
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
        while not try_lock(lock):
            if newer := _newer(file, before):
                return newer
            if time.monotonic() > deadline:
                raise ServiceError("Slurm does not answer", code="SlurmUnavailable", hint="Try again later.")
            time.sleep(PAUSE_S)
        try:
            return _newer(file, before) or _renewed(file, ask, before)  # another was done just before
        finally:
            lock.unlink(missing_ok=True)


def _newer(file: Path, before: Answer | None) -> Answer | None:
    answer = _read(file)
    return answer if answer and (before is None or answer.tried > before.tried) else None


def _renewed(file: Path, ask: Callable[[], Sequence[tuple[Any, ...]]], before: Answer | None) -> Answer:
    now = time.time()
    try:
        lines = tuple(tuple(line) for line in ask())
    except ServiceError:
        if before is None:
            raise
        answer = before._replace(tried=now)  # what was so is the best that is known
    else:
        is_same = before is not None and before.lines == lines
        answer = Answer(now, before.changed if before and is_same else now, now, lines)
    private_files.write(file, json.dumps(answer))
    return answer


def _age_s(answer: Answer) -> float:
    """How long ago Slurm was asked; one of the future, by a host whose clock is ahead, is too old."""
    age_s = time.time() - answer.tried
    return age_s if age_s >= 0 else LONGEST_S + 1


def _read(file: Path) -> Answer | None:
    try:
        asked, changed, tried, lines = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return Answer(asked, changed, tried, tuple(tuple(line) for line in lines))
