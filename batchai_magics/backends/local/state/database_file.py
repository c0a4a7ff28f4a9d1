"""The store's file: private, checked for replacement, copied on a read-only disk; its tables and errors."""

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
from typing import NoReturn

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local.state.job_table import NEEDS_PROCESS
from batchai_magics.errors import StorageError
from batchai_magics.launch.plan import OTHER_VERSION_HINT, VERSION

FileVersion = tuple[float, ...]  # identifies a file: device and inode, and for copies its changes
BUSY_S = 30.0
PAUSE_S = 0.02  # between attempts to lock the folder
_WAL = "-wal"
WAL_BYTES = 9 << 19  # SQLite restarts its WAL at 4 MB, so it rarely grows beyond this
_TRIES = 5  # attempts to copy a database in use
DISK_FULL = "DiskFull"  # error code
DAMAGED = "StoreDamaged"
MISSING = "StoreMissing"
READ_ONLY = "StoreReadOnly"
_LOCKED = "database is locked"
FULL_BYTES = 1 << 20  # with less free space, an I/O error counts as a full disk
_FREE_SPACE = "Free some space and try again; what was saved before is intact."


class DatabaseFile:
    """An open database; on a read-only disk a temporary copy."""

    def __init__(self, path: Path, *, may_make: bool, busy_s: float = BUSY_S) -> None:
        self.path = opened = path
        self.pid = os.getpid()  # a forked child must neither use nor close its parent's
        folder = ""  # of the copy
        try:
            self.is_copy = path.exists() and private_files.is_read_only(path.parent)
            if self.is_copy:
                import tempfile  # only for a read-only home; keeps supervisors small

                folder = tempfile.mkdtemp(prefix="batchai-")
                opened = _copy(path, Path(folder))
            self.connection = _connect(opened, may_make=may_make, busy_s=busy_s)
            self._version = _file_version(path, self.is_copy)
        except BaseException as error:
            _remove(folder)
            if isinstance(error, OSError):
                raise unusable(path, error.strerror or str(error)) from error
            raise
        self.close = weakref.finalize(self, _close, self.connection, self.pid, folder)

    @property
    def is_there(self) -> bool:
        """Whether the path still has the file that was opened; for a copy, unchanged."""
        return _file_version(self.path, self.is_copy) == self._version

    def preallocate_wal(self) -> None:
        """Allocates disk space for the WAL, if there is any; call it in a transaction."""
        log = self.path.with_name(self.path.name + _WAL)
        with contextlib.suppress(OSError, AttributeError):  # full disk, or macOS
            if log.stat().st_size < WAL_BYTES:
                # Nobody else writes the WAL in a transaction, and zeros beyond its end are ignored.
                descriptor = os.open(log, os.O_WRONLY)
                try:
                    os.posix_fallocate(descriptor, 0, WAL_BYTES)
                finally:
                    os.close(descriptor)


def _connect(path: Path, *, may_make: bool, busy_s: float) -> sqlite3.Connection:
    """A connection to a database with tables; StorageError if it is missing or of another version."""
    if not may_make:
        if not path.exists():
            raise missing(path)
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
    deadline_s = time.monotonic() + busy_s
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline_s:
                    raise locked(folder) from None
            time.sleep(PAUSE_S)
        yield
    finally:
        os.close(descriptor)


def _set_up(path: Path, *, may_make: bool, busy_s: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        is_new = not _has_tables(connection, path)  # before anything is written
        if is_new and not may_make:
            raise missing(path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        job_count = create_tables(connection, path) if is_new else 0
    except BaseException:
        connection.close()
        raise
    if job_count:
        text = f"{path} was lost and was rebuilt with {job_count} jobs from their folders"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return connection


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
        status = path.stat()
    except OSError:
        return ()
    mark = (status.st_dev, status.st_ino)
    if not with_changes:
        return mark
    version = (*mark, status.st_mtime_ns, status.st_size)
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


_TABLES = f"""
BEGIN IMMEDIATE;
CREATE TABLE resource (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,      -- the ARM id in lower case
    id TEXT NOT NULL,              -- the ARM id as it was given
    kind TEXT NOT NULL,
    parent TEXT NOT NULL,
    spec TEXT NOT NULL,            -- wire JSON without secrets
    fingerprint TEXT NOT NULL,     -- of the description
    created REAL NOT NULL,
    owner TEXT NOT NULL DEFAULT '',  -- the user who created it
    guid TEXT NOT NULL,
    more TEXT NOT NULL DEFAULT '{{}}'  -- what else is recorded of it (JSON)
) STRICT;
CREATE INDEX resource_parent ON resource (parent, kind, seq);
CREATE INDEX resource_guid ON resource (guid);
CREATE INDEX resource_kind ON resource (kind, seq) WHERE kind != 'jobs';
CREATE TABLE cluster (
    guid TEXT PRIMARY KEY,         -- of its resource
    target INTEGER NOT NULL,
    minimum INTEGER,               -- of an auto-scale cluster
    maximum INTEGER,
    idle_s REAL NOT NULL DEFAULT 0,
    next_ordinal INTEGER NOT NULL DEFAULT 0,
    changed REAL NOT NULL
) STRICT;
CREATE TABLE node (
    id TEXT PRIMARY KEY,
    cluster TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    state TEXT NOT NULL,
    since REAL NOT NULL,           -- when it came to that state
    job TEXT,
    preparer TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX node_cluster ON node (cluster, ordinal);
CREATE INDEX node_job ON node (job) WHERE job IS NOT NULL;
CREATE TABLE job (
    key TEXT PRIMARY KEY,
    guid TEXT NOT NULL,
    cluster TEXT NOT NULL,
    node_count INTEGER NOT NULL,
    priority INTEGER NOT NULL,     -- higher first
    state TEXT NOT NULL,
    changed REAL NOT NULL,
    python TEXT NOT NULL,          -- the interpreter that submitted it
    needs_secrets INTEGER NOT NULL,
    is_assigned INTEGER NOT NULL DEFAULT 0,
    spawner TEXT NOT NULL DEFAULT '',
    supervisor TEXT NOT NULL DEFAULT '',
    stop TEXT NOT NULL DEFAULT '', -- '', 'terminate' or 'requeue'
    started REAL,
    ended REAL,
    exit_code INTEGER,
    errors TEXT NOT NULL DEFAULT '[]',
    ranks TEXT NOT NULL DEFAULT '[]',
    again TEXT NOT NULL DEFAULT '',  -- why a requeue is pending
    attempts TEXT NOT NULL DEFAULT '[]',  -- every start (JSON list): a requeued job stays one job
    owner TEXT NOT NULL DEFAULT '',  -- jobs of one priority are ordered by their owners' nodes
    max_running INTEGER NOT NULL DEFAULT 0,  -- how many jobs of the owner may run at once; 0: any number
    job_group TEXT NOT NULL DEFAULT '',  -- such as the trials of a sweep
    group_limit INTEGER NOT NULL DEFAULT 0,  -- how many jobs of the group may run at once; 0: any number
    gpu_count INTEGER NOT NULL DEFAULT 0,  -- of a job that shares its node with others
    after TEXT NOT NULL DEFAULT '[]'  -- the runs (JSON list) that have to end before it is in the queue
) STRICT;
-- Supervisors and sweeps look up single runs by guid, which must not scan thousands of jobs.
CREATE INDEX job_guid ON job (guid);
CREATE INDEX job_state ON job (state, cluster);
-- Every step reads the head of a queue and the runs that need a process, without scanning a long queue or
-- history.
CREATE INDEX job_queue ON job (cluster, state, is_assigned, after, priority DESC, owner);
CREATE INDEX job_after ON job (guid) WHERE after != '[]';
-- Which runs wait for a run: an index of `job.after`, since every end asks for it.
CREATE TABLE dependent (
    predecessor TEXT NOT NULL,
    run TEXT NOT NULL,
    PRIMARY KEY (predecessor, run)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER job_waits AFTER INSERT ON job WHEN new.after != '[]' BEGIN
    INSERT INTO dependent SELECT json_extract(value, '$[0]'), new.guid FROM json_each(new.after);
END;
CREATE TRIGGER job_waits_less AFTER UPDATE OF after ON job WHEN old.after != new.after BEGIN
    DELETE FROM dependent WHERE run = old.guid
        AND predecessor IN (SELECT json_extract(value, '$[0]') FROM json_each(old.after));
    INSERT INTO dependent SELECT json_extract(value, '$[0]'), new.guid FROM json_each(new.after);
END;
CREATE TRIGGER job_waits_no_more AFTER DELETE ON job WHEN old.after != '[]' BEGIN
    DELETE FROM dependent WHERE run = old.guid
        AND predecessor IN (SELECT json_extract(value, '$[0]') FROM json_each(old.after));
END;
CREATE INDEX job_watched ON job (state) WHERE {NEEDS_PROCESS};
CREATE INDEX job_limited ON job (job_group) WHERE group_limit > 0 AND is_assigned = 1;
-- Which GPUs of a node a job has that shares it with others; such a node runs no job of its own.
CREATE TABLE gpu_share (
    job TEXT NOT NULL,
    node TEXT NOT NULL,
    gpus TEXT NOT NULL,            -- as CUDA_VISIBLE_DEVICES names them
    PRIMARY KEY (job, node)
) STRICT;
CREATE INDEX gpu_share_node ON gpu_share (node);
-- All jobs of each node.
CREATE VIEW node_run AS
    SELECT id AS node, job, '' AS gpus FROM node WHERE job IS NOT NULL
    UNION ALL SELECT node, job, gpus FROM gpu_share;
CREATE TRIGGER node_deleted AFTER DELETE ON node BEGIN
    DELETE FROM gpu_share WHERE node = old.id;
END;
-- Jobs, clusters and nodes go with their resource.
CREATE TRIGGER resource_deleted AFTER DELETE ON resource BEGIN
    DELETE FROM job WHERE guid = old.guid;
    DELETE FROM node WHERE cluster = old.guid;
    DELETE FROM cluster WHERE guid = old.guid;
END;
PRAGMA user_version = {VERSION};
"""


def _has_tables(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether a database has its tables; changes nothing.

    Raises:
        StorageError: Another version made them.
    """
    # Asked before the version, which is committed with the tables: another process may be making them.
    if not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        return False
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != VERSION:
        text = f"{path} has version {version}, and this batchai_magics reads and writes version {VERSION}"
        raise StorageError(text, code="StoreVersionMismatch", hint=OTHER_VERSION_HINT)
    return True


def create_tables(connection: sqlite3.Connection, path: Path) -> int:
    """Creates the tables, and rebuilds their rows from job folders, if there are any, all in one transaction.

    Returns:
        The number of jobs that were found.
    """
    try:
        connection.executescript(_TABLES)
        job_count, layout = 0, Layout(path.parent)
        if layout.jobs.exists():
            from batchai_magics.backends.local.state import store_rebuild  # loads the models

            job_count = store_rebuild.rebuild(connection, layout)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return job_count


# -- errors


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
    hint = (
        f"`fuser -v {path}` lists its users: jobs' supervisors are among them. Resume one that is stopped"
        " (`kill -CONT PID`), or wait; then try again: nothing was written."
    )
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
