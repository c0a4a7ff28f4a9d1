"""Follows the files that trainers log to, and appends their numbers to a log of the job as JSON lines.

Only files that are written during the run count. Searches and reads are limited in size and in time: a run
without such files costs one listing of its working directories every few seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from batchai_magics.launch.plan import TRAINER_LOG, UNREADABLE, Plan

if TYPE_CHECKING:
    from batchai_magics.metrics.reading.trainer_files import NumberLines, TrainerFile

FIRST_S, PERIOD_S, MAX_IDLE_S = 0.5, 2.0, 10.0
MAX_CPU_SHARE = 0.005  # of one core
MAX_READ_S, MAX_LAST_READ_S = 0.05, 2.0  # at a time, and after the end
MAX_FILES, MAX_ENTRIES, MAX_DEPTH = 64, 5000, 6
_MAX_BATCH = 1 << 16  # bytes that are written together
_OWN = "events.out.tfevents.batchai-"  # our own exports, whose numbers come from the logs
_SKIPPED = ("__pycache__", "node_modules", "site-packages")


class _CandidateFile(NamedTuple):
    """A file that may have numbers, and the rank that it belongs to."""

    path: str
    inode: int
    size_bytes: int
    modified: float
    rank: int


class _FollowedFile:
    """The reading position in a file, which may be between two numbers."""

    def __init__(self, reader: TrainerFile) -> None:
        self.reader = reader
        self.is_reported = False  # whether the log says that it cannot be read any more
        self.unread: Iterator[dict[str, Any]] = iter(())
        self.version_read: _CandidateFile | None = None  # the file when it was last read to its end

    def values(self, *, is_last: bool) -> Iterator[dict[str, Any]]:
        """The values that the last call left unread, then the values added since."""
        self.unread = chain(self.unread, self.reader.read(is_last=is_last))
        return self.unread


def trainer_file_log(plan: Plan) -> TrainerFileLog | None:
    """The log of a job's plan; None for a preparation or setup task, or a job whose output is not kept."""
    return TrainerFileLog(plan) if plan.telemetry and plan.output.stdout.path else None


class TrainerFileLog:
    """The numbers of all files below the working directories and the artifacts of a job."""

    def __init__(self, plan: Plan) -> None:
        self._folders = list(_folders(plan))
        self._path = f"{plan.output.stdout.path.rpartition('/')[0]}/{TRAINER_LOG}"
        self._files: dict[str, _FollowedFile] = {}
        self._log, self._is_torn, self._is_broken = -1, False, False
        self._lines: NumberLines | None = None
        self._old = {file.path: file for file in self._search()}  # of an earlier attempt
        self._started_s = time.monotonic()
        self.due_s = self._started_s + FIRST_S

    def update_if_due(self) -> None:
        """Reads new numbers, if that is due."""
        now_s = time.monotonic()
        if now_s < self.due_s:
            return
        began = time.thread_time()
        self.update(MAX_READ_S)
        cost_s = time.thread_time() - began
        idle_s = 0.0 if self._files else min(MAX_IDLE_S, (now_s - self._started_s) / 60)
        self.due_s = time.monotonic() + max(PERIOD_S, idle_s, cost_s / MAX_CPU_SHARE)

    def update(self, limit_s: float = MAX_LAST_READ_S, *, is_last: bool = False) -> None:
        """Reads new numbers for a limited time."""
        deadline_s = time.monotonic() + limit_s
        try:
            for file in () if self._is_broken else self._search():
                if time.monotonic() < deadline_s and self._has_news(file, is_last=is_last):
                    self._copy(file, deadline_s, is_last=is_last)
        except Exception as error:  # noqa: BLE001 whatever is in these files, no job fails because of them
            self._report(f"the files of trainers: {error}")
            self._is_broken = True

    def close(self) -> None:
        """Reads the remaining numbers, after the last process has ended, and closes the log."""
        self.update(is_last=True)
        if self._log >= 0:
            os.close(self._log)
        self._is_broken = True

    def _has_news(self, file: _CandidateFile, *, is_last: bool) -> bool:
        """Whether a file was written since it was read, and during the run."""
        followed = self._files.get(file.path)
        if followed is None:
            return file != self._old.get(file.path) and len(self._files) < MAX_FILES
        return is_last or file != followed.version_read

    def _copy(self, file: _CandidateFile, deadline_s: float, *, is_last: bool) -> None:
        """Appends the new numbers of a file to the log; the rest follows next time."""
        from batchai_magics.metrics.reading.trainer_files import NumberLines  # few jobs have such files

        self._lines = self._lines or NumberLines()
        if file.path not in self._files:
            old = self._old.get(file.path)
            from pathlib import Path  # slows each rank

            from batchai_magics.metrics.reading.trainer_files import TrainerFile

            is_continued = old is not None and old.inode == file.inode and old.size_bytes <= file.size_bytes
            offset = old.size_bytes if old and is_continued else 0
            self._files[file.path] = _FollowedFile(TrainerFile(Path(file.path), offset=offset))
        followed, batch = self._files[file.path], b""
        base = {"time": round(time.time(), 3), "rank": file.rank}
        for values in followed.values(is_last=is_last):
            batch += self._lines.line({**base, **values})
            if len(batch) >= _MAX_BATCH:
                self._append(batch)
                batch = b""
                if time.monotonic() >= deadline_s:
                    return
        self._append(batch)
        followed.version_read = file
        if followed.reader.problem and not followed.is_reported:
            followed.is_reported = True
            self._report(f"{os.path.basename(file.path)}: {followed.reader.problem}")  # noqa: PTH119 as above

    def _report(self, problem: str) -> None:
        """Writes to the log that numbers are missing from here on, so that readers stop waiting for them."""
        self._append(json.dumps({UNREADABLE: problem}).encode() + b"\n")

    def _append(self, batch: bytes) -> None:
        """Appends lines; a full disk loses them, and a partial line is terminated by the next one."""
        if not batch:
            return
        with contextlib.suppress(OSError):
            if self._log < 0:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
                self._log = os.open(self._path, flags, 0o600)
            data = b"\n" * self._is_torn + batch
            self._is_torn = os.write(self._log, data) < len(data)

    def _search(self) -> Iterator[_CandidateFile]:
        for folder, rank in self._folders:
            yield from _search(folder, rank)


def _folders(plan: Plan) -> Iterator[tuple[str, int]]:
    """The folders to search, each with the first rank of its node."""
    first = {process.node: process.rank for process in reversed(plan.processes)}
    for index, node in enumerate(plan.nodes):
        yield node.folder, first.get(index, 0)
    if artifacts := plan.nodes[0].env.get("BATCHAI_ARTIFACT_DIR", ""):
        yield artifacts, 0


def _search(folder: str, rank: int) -> Iterator[_CandidateFile]:
    """The files of trainers below a folder, without following links."""
    folders, count = [(folder, 0)], 0
    for path, depth in folders:
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                count += 1
                if count > MAX_ENTRIES:
                    return
                if entry.is_dir(follow_symlinks=False):
                    is_left_out = depth >= MAX_DEPTH or entry.name in _SKIPPED or entry.name.startswith(".")
                    folders += [] if is_left_out else [(entry.path, depth + 1)]
                elif is_trainer_file(entry.name):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        yield _CandidateFile(entry.path, status.st_ino, status.st_size, status.st_mtime, rank)


def is_trainer_file(name: str) -> bool:
    """Whether a file of that name may hold metrics of a trainer."""
    is_event_file = "tfevents" in name and not name.startswith(_OWN)
    return is_event_file or name == "metrics.csv" or name.endswith((".jsonl", ".ndjson"))
