"""The file of the store: opened for its owner alone, known again, and copied where it cannot be written."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import time
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path

from batchai_magics.backends.folders import private
from batchai_magics.backends.local.state import database_errors, migrations
from batchai_magics.backends.local.state.lock_holder import opener_in

FileVersion = tuple[float, ...]  # what a file is known by: another one, made later, has another
BUSY_S = 30.0
PAUSE_S = 0.02  # between two tries to be alone
_WAL = "-wal"
WAL_BYTES = 9 << 19  # SQLite starts its log anew after 4 MB: with these it seldom needs another block
_TRIES = 5  # at a copy of what is being written


class DatabaseFile:
    """An open database. On a read-only disk it is a copy that goes when it is closed."""

    def __init__(self, path: Path, *, may_make: bool) -> None:
        self.path = path
        self.pid = os.getpid()
        try:
            self.is_copy = path.exists() and private.is_read_only(path.parent)
            self._folder = _temporary_folder() if self.is_copy else ""
            self.connection = self._connected(may_make)
            self._version = _file_version(path, self.is_copy)
        except OSError as error:
            raise database_errors.unusable(path, error.strerror or str(error)) from error
        self.close = weakref.finalize(self, _close, self.connection, self.pid, self._folder)

    def _connected(self, may_make: bool) -> sqlite3.Connection:
        if not self.is_copy:
            return _connect(self.path, may_make=may_make)
        try:
            return _connect(_copy(self.path, Path(self._folder)), may_make=may_make)
        except BaseException:
            _remove(self._folder)
            raise

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process opened it: a forked child must not use its parent's, nor close it."""
        return self.pid == os.getpid()

    @property
    def is_there(self) -> bool:
        """Whether the file at its path is still the one that was opened, as it was if this is a copy."""
        return _file_version(self.path, self.is_copy) == self._version

    def preallocate_wal(self) -> None:
        """In a transaction, keeps room on the disk for the log of this one and later ones, if there is."""
        log = self.path.with_name(self.path.name + _WAL)
        with contextlib.suppress(OSError, AttributeError):  # a disk without room, or macOS
            if log.stat().st_size < WAL_BYTES:
                _allocate(log)


def _allocate(log: Path) -> None:
    """Only in a transaction: then nobody else writes to the log, and what is beyond its end is nothing."""
    descriptor = os.open(log, os.O_WRONLY)
    try:
        os.posix_fallocate(descriptor, 0, WAL_BYTES)
    finally:
        os.close(descriptor)


def _connect(path: Path, *, may_make: bool) -> sqlite3.Connection:
    """A connection to a database of the newest version; StorageError when there is none to be had."""
    if not may_make:
        if not path.exists():
            raise database_errors.missing(path)
        return _set_up(path, may_make=False)
    private.make_home(path.parent)
    with _exclusive(path.parent):
        if path.exists() and not path.stat().st_size:  # who has it open finds it gone, not broken
            path.unlink()
        private.make_file(path)
        return _set_up(path, may_make=True)


@contextlib.contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Nobody else makes a database in the folder; StorageError when somebody else never ends doing so."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    wait = database_errors.LockWait(folder, BUSY_S, opener_in)
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if wait.is_over:
                raise database_errors.locked(folder, opener_in(folder)) from None
        wait.warn_if_stopped()
        time.sleep(PAUSE_S)


def _set_up(path: Path, *, may_make: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        found = migrations.migrate(connection, path, may_make=may_make)
    except BaseException:
        connection.close()
        raise
    if found:
        text = f"{path} was lost: it was made again with {found} jobs, as far as their folders tell"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return connection


def _temporary_folder() -> str:
    import tempfile  # only for a read-only home: supervisors start without

    return tempfile.mkdtemp(prefix="batchai-")


def _copy(path: Path, folder: Path) -> Path:
    """A copy of the database, of one moment."""
    import shutil  # as above

    copy = folder / path.name
    for _ in range(_TRIES):
        before = _file_version(path, True)
        for suffix in ("", _WAL):
            source = path.with_name(path.name + suffix)
            if source.exists():
                shutil.copyfile(source, copy.with_name(copy.name + suffix))
        if _file_version(path, True) == before:
            break
    return copy


def _file_version(path: Path, with_changes: bool) -> FileVersion:
    """What the file is known by; with its changes, if they are to be noticed. Empty when it is gone."""
    try:
        found = path.stat()
    except OSError:
        return ()
    mark = (found.st_dev, found.st_ino)
    if not with_changes:
        return mark
    wal = path.with_name(path.name + _WAL)
    changes = [(each.st_mtime_ns, each.st_size) for each in (found, *([wal.stat()] if wal.exists() else []))]
    return (*mark, *(number for pair in changes for number in pair))


def _close(connection: sqlite3.Connection, pid: int, folder: str) -> None:
    if pid == os.getpid():
        connection.close()
        _remove(folder)


def _remove(folder: str) -> None:
    if folder:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
