"""Translates SQLite errors to `StorageError`: which file, what is wrong, what to do."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from batchai_magics.errors import StorageError

DISK_FULL = "DiskFull"  # error code
DAMAGED = "StoreDamaged"
MISSING = "StoreMissing"
READ_ONLY = "StoreReadOnly"
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


def locked(path: Path) -> StorageError:
    """Another process holds the write lock for longer than any transaction takes."""
    hint = f"`fuser -v {path}` lists its users. End the one that hangs, then try again: nothing was written."
    text = f"{path} cannot be changed: another process has locked it"
    return StorageError(text, code="StoreUnavailable", hint=hint)


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
        return locked(path)
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
