"""Translates SQLite errors to `StorageError`: which file, what is wrong, who holds its lock, what to do."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

from batchai_magics.errors import StorageError

LOCKS = Path("/proc/locks")
_WRITER = 120  # the byte of the -shm file that a writer locks (sqlite.org/walformat.html, 2.3.1)


class LockHolder(NamedTuple):
    """A process that holds the lock; a stopped one never releases it."""

    pid: int
    name: str
    is_stopped: bool

    def __str__(self) -> str:
        return f"process {self.pid} ({self.name})"


def writer_of(database: Path) -> LockHolder | None:
    """The other process in a write transaction; None if unknown."""
    return _holder(database.with_name(database.name + "-shm"), _WRITER)


def opener_in(folder: Path) -> LockHolder | None:
    """The other process that creates or opens a database there; None if unknown."""
    return _holder(folder, 0)


def _holder(file: Path, byte: int) -> LockHolder | None:
    with contextlib.suppress(OSError, ValueError):  # not Linux, or the process has ended
        lockers = [pid for pid, first, last in _locks(file.stat().st_ino) if first <= byte <= last]
        return next(
            (_read_process(pid) for pid in lockers if pid != os.getpid() and _has_open(pid, file)), None
        )
    return None


def _locks(inode: int) -> Iterator[tuple[int, int, float]]:
    """(pid, first, last) of each write lock held on the inode; waiters are left out."""
    for line in LOCKS.read_text().splitlines():
        words = line.split()
        if words[1] != "->" and words[3] == "WRITE" and words[5].rpartition(":")[2] == str(inode):
            yield int(words[4]), int(words[6]), float("inf") if words[7] == "EOF" else int(words[7])


def _has_open(pid: int, file: Path) -> bool:
    """Whether the process has the file open: some file systems reuse inode numbers."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if descriptor.samefile(file):
                return True
    return False


def _read_process(pid: int) -> LockHolder:
    """The process's name; not its command line, which may hold secrets."""
    _, name, rest = re.split(r" \((.*)\) ", Path(f"/proc/{pid}/stat").read_text(errors="replace"), flags=re.S)
    return LockHolder(pid, "".join(filter(str.isprintable, name)), is_stopped=rest[0] in "Tt")


DISK_FULL = "DiskFull"  # error code
DAMAGED = "StoreDamaged"
MISSING = "StoreMissing"
READ_ONLY = "StoreReadOnly"
WARN_AFTER_S = 2.0  # how long to wait before warning of a stopped lock holder
_LOCKED = "database is locked"
FULL_BYTES = 1 << 20  # with less free space, an I/O error counts as a full disk
_FREE_SPACE = "Free some space and try again; what was saved before is intact."


@contextlib.contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Raises SQLite errors of the block as StorageError about the file at `path`."""
    try:
        yield
    except sqlite3.Error as error:
        raise_translated(path, error)


def raise_translated(path: Path, error: sqlite3.Error) -> NoReturn:
    """Raises an SQLite error as StorageError about the file at `path`; a bug (a duplicate key) as it is."""
    if isinstance(error, sqlite3.OperationalError):
        raise _operational_error(path, str(error)) from error
    if type(error) is sqlite3.DatabaseError:
        raise damaged(path, str(error)) from error
    raise error


def is_locked_error(error: sqlite3.OperationalError) -> bool:
    """Whether SQLite timed out waiting for another process's transaction."""
    return str(error) == _LOCKED


def damaged(path: Path, words: str) -> StorageError:
    """The file is not a valid database, or its WAL belongs to another one."""
    text = f"{path} is damaged: {words}"
    hint = (
        f"Move it away, with {path.name}-wal and {path.name}-shm, and try again: it"
        f" is then rebuilt from {path.with_name('jobs')}."
    )
    return StorageError(text, code=DAMAGED, hint=hint)


def unusable(path: Path, words: str) -> StorageError:
    """The file cannot be opened, read or written."""
    return StorageError(f"{path} cannot be used: {words}", code="StoreUnavailable")


def locked(path: Path, holder: LockHolder | None) -> StorageError:
    """Another process holds the write lock for longer than any transaction takes."""
    if holder is None:
        text, hint = (
            "another process has locked it",
            f"`fuser -v {path}` lists its users.",
        )
    else:
        text, hint = _describe_holder(holder), _holder_hint(holder)
    hint = f"{hint} Then try again: nothing was written."
    return StorageError(f"{path} cannot be changed: {text}", code="StoreUnavailable", hint=hint)


class LockWait:
    """Waiting for a lock of the file at `path`; warns once if its holder is stopped."""

    def __init__(self, path: Path, seconds: float, holder: Callable[[Path], LockHolder | None]) -> None:
        self._path, self._holder = path, holder
        self._warn_at_s = time.monotonic() + WARN_AFTER_S
        self._deadline_s = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._deadline_s

    def warn_if_stopped(self) -> None:
        """Warns once of a stopped holder, after `WARN_AFTER_S`; a slow holder is named in the error."""
        now = time.monotonic()
        if now < self._warn_at_s:
            return
        holder = self._holder(self._path)
        if holder and holder.is_stopped:
            self._warn_at_s = float("inf")
            more = f"waiting for up to {round(self._deadline_s - now)} s more"
            text = f"{self._path} cannot be changed yet: {_describe_holder(holder)}; {more}."
            text += f" {_holder_hint(holder)}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)


def _describe_holder(holder: LockHolder) -> str:
    return f"{holder} has locked it" + (" and is stopped" if holder.is_stopped else "")


def _holder_hint(holder: LockHolder) -> str:
    what = f"Resume it with `kill -CONT {holder.pid}`" if holder.is_stopped else "Wait for it"
    return f"{what}, or end it with `kill -KILL {holder.pid}`: its unfinished changes are rolled back."


def missing(path: Path) -> StorageError:
    """The file was deleted while in use."""
    hint = (
        "Running jobs continue. The next thing you create starts a new one, rebuilt from"
        f" {path.with_name('jobs')}."
    )
    return StorageError(f"{path} was deleted while it was in use", code=MISSING, hint=hint)


def no_room(folder: Path, error: OSError) -> StorageError:
    """The disk is full, or the folder is not writable."""
    hint = "Free some space and try again; nothing was written."
    return StorageError(f"{folder} cannot be used: {error.strerror}", code=DISK_FULL, hint=hint)


def replaced(path: Path) -> StorageError:
    """Another file has replaced it."""
    hint = "Try again to go on with the file that is there now."
    return StorageError(f"{path} was replaced while it was in use", code="StoreReplaced", hint=hint)


def read_only(folder: Path) -> StorageError:
    """The disk is read-only."""
    hint = "What is there can be listed and read. Set BATCHAI_HOME to a folder that you can write."
    return StorageError(f"{folder} is read-only", code=READ_ONLY, hint=hint)


def _operational_error(path: Path, words: str) -> StorageError:
    if "full" in words or ("disk I/O" in words and has_no_room(path.parent)):
        return StorageError(f"{path} cannot be used: {words}", code=DISK_FULL, hint=_FREE_SPACE)
    if words == _LOCKED:
        return locked(path, writer_of(path))
    if "disk I/O" in words or "malformed" in words:
        return damaged(path, words)
    return unusable(path, words)


def has_no_room(folder: Path) -> bool:
    """Whether the disk of a folder is full; False if that is unknown."""
    try:
        room = os.statvfs(folder)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < FULL_BYTES
