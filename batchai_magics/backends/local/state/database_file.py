"""The store's file: opened with private permissions, checked for replacement, copied on a read-only disk."""

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

from batchai_magics.backends.local.state import database_errors, schema
from batchai_magics.backends.local.state.database_errors import opener_in
from batchai_magics.backends.service import private_files

FileVersion = tuple[float, ...]  # identifies a file: device and inode, and for copies its changes
BUSY_S = 30.0
PAUSE_S = 0.02  # between attempts to lock the folder
_WAL = "-wal"
WAL_BYTES = 9 << 19  # SQLite restarts its WAL at 4 MB, so it rarely grows beyond this
_TRIES = 5  # attempts to copy a database in use


class DatabaseFile:
    """An open database; on a read-only disk a temporary copy."""

    def __init__(self, path: Path, *, may_make: bool, busy_s: float = BUSY_S) -> None:
        self.path, self._busy_s = path, busy_s
        self.pid = os.getpid()
        try:
            self.is_copy = path.exists() and private_files.is_read_only(path.parent)
            self._folder = _temporary_folder() if self.is_copy else ""
            self.connection = self._connected(may_make)
            self._version = _file_version(path, self.is_copy)
        except OSError as error:
            raise database_errors.unusable(path, error.strerror or str(error)) from error
        self.close = weakref.finalize(self, _close, self.connection, self.pid, self._folder)

    def _connected(self, may_make: bool) -> sqlite3.Connection:
        if not self.is_copy:
            return _connect(self.path, may_make=may_make, busy_s=self._busy_s)
        try:
            copy = _copy(self.path, Path(self._folder))
            return _connect(copy, may_make=may_make, busy_s=self._busy_s)
        except BaseException:
            _remove(self._folder)
            raise

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process opened it: a forked child must neither use nor close its parent's."""
        return self.pid == os.getpid()

    @property
    def is_there(self) -> bool:
        """Whether the path still has the file that was opened; for a copy, unchanged."""
        return _file_version(self.path, self.is_copy) == self._version

    def preallocate_wal(self) -> None:
        """Allocates disk space for the WAL, if there is any; call it in a transaction."""
        log = self.path.with_name(self.path.name + _WAL)
        with contextlib.suppress(OSError, AttributeError):  # full disk, or macOS
            if log.stat().st_size < WAL_BYTES:
                _allocate(log)


def _allocate(log: Path) -> None:
    """Safe only in a transaction: no one else writes the WAL, and zeros beyond its end are ignored."""
    descriptor = os.open(log, os.O_WRONLY)
    try:
        os.posix_fallocate(descriptor, 0, WAL_BYTES)
    finally:
        os.close(descriptor)


def _connect(path: Path, *, may_make: bool, busy_s: float) -> sqlite3.Connection:
    """A connection to a database with tables; StorageError if it is missing or of another version."""
    if not may_make:
        if not path.exists():
            raise database_errors.missing(path)
        return _set_up(path, may_make=False, busy_s=busy_s)
    private_files.make_home(path.parent)
    with _exclusive(path.parent, busy_s):
        if path.exists() and not path.stat().st_size:  # seen as deleted, not damaged, by others
            path.unlink()
        private_files.make_file(path)
        return _set_up(path, may_make=True, busy_s=busy_s)


@contextlib.contextmanager
def _exclusive(folder: Path, busy_s: float) -> Iterator[None]:
    """Locks the folder for creating a database; StorageError on timeout."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, folder, busy_s)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path, busy_s: float) -> None:
    wait = database_errors.LockWait(folder, busy_s, opener_in)
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if wait.is_over:
                raise database_errors.locked(folder, opener_in(folder)) from None
        wait.warn_if_stopped()
        time.sleep(PAUSE_S)


def _set_up(path: Path, *, may_make: bool, busy_s: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        is_new = not schema.has_tables(connection, path)  # before anything is written
        if is_new and not may_make:
            raise database_errors.missing(path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        found = schema.create(connection, path) if is_new else 0
    except BaseException:
        connection.close()
        raise
    if found:
        text = f"{path} was lost and was rebuilt with {found} jobs from their folders"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return connection


def _temporary_folder() -> str:
    import tempfile  # only for a read-only home; keeps supervisors small

    return tempfile.mkdtemp(prefix="batchai-")


def _copy(path: Path, folder: Path) -> Path:
    """A consistent copy of the database."""
    copy = folder / path.name
    for _ in range(_TRIES):
        before = _file_version(path, True)
        for suffix in ("", _WAL):
            _copy_file(path.with_name(path.name + suffix), copy.with_name(copy.name + suffix))
        if _file_version(path, True) == before:
            break
    return copy


def _copy_file(source: Path, copy: Path) -> None:
    """Copies a file, or deletes the copy: the last process that closes the database deletes the WAL."""
    import shutil  # as above

    try:
        shutil.copyfile(source, copy)
    except FileNotFoundError:
        copy.unlink(missing_ok=True)


def _file_version(path: Path, with_changes: bool) -> FileVersion:
    """Device and inode, and with `with_changes` times and sizes; empty if the file is gone."""
    try:
        found = path.stat()
    except OSError:
        return ()
    mark = (found.st_dev, found.st_ino)
    if not with_changes:
        return mark
    version = (*mark, found.st_mtime_ns, found.st_size)
    with contextlib.suppress(FileNotFoundError):
        wal = path.with_name(path.name + _WAL).stat()
        return (*version, wal.st_mtime_ns, wal.st_size)
    return version


def _close(connection: sqlite3.Connection, pid: int, folder: str) -> None:
    if pid == os.getpid():
        connection.close()
        _remove(folder)


def _remove(folder: str) -> None:
    if folder:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
