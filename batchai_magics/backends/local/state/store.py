"""The state of the local backend: one SQLite file, safe for many processes at once.

Only what must survive is here; what can be counted (node states, allocation) is counted when asked for.
No secret is ever written.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

from batchai_magics.errors import StorageError

BUSY_S = 30.0
RESERVE_BYTES = 1 << 20  # room in which the outcome of a job is written when the disk is full
_SCHEMA = """
CREATE TABLE IF NOT EXISTS resource (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,      -- the ARM id in lower case
    id TEXT NOT NULL,              -- the ARM id as it was given
    kind TEXT NOT NULL,
    parent TEXT NOT NULL,
    spec TEXT NOT NULL,            -- wire JSON without secrets
    fingerprint TEXT NOT NULL,     -- of the description
    created REAL NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS resource_parent ON resource (parent, kind, seq);
CREATE TABLE IF NOT EXISTS resource_group (
    key TEXT PRIMARY KEY,          -- the name in lower case
    name TEXT NOT NULL,
    location TEXT NOT NULL,
    tags TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS account (
    name TEXT PRIMARY KEY,
    group_name TEXT NOT NULL,
    location TEXT NOT NULL,
    sku TEXT NOT NULL,
    key1 TEXT NOT NULL,
    key2 TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS cluster (
    key TEXT PRIMARY KEY,
    guid TEXT NOT NULL,
    target INTEGER NOT NULL,
    minimum INTEGER,               -- of an auto-scale cluster
    maximum INTEGER,
    idle_s REAL NOT NULL DEFAULT 0,
    next_ordinal INTEGER NOT NULL DEFAULT 0,
    changed REAL NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS node (
    id TEXT PRIMARY KEY,
    cluster TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    state TEXT NOT NULL,
    since REAL NOT NULL,           -- when it came to that state
    job TEXT,
    preparer TEXT NOT NULL DEFAULT '',
    error TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX IF NOT EXISTS node_cluster ON node (cluster, ordinal);
CREATE TABLE IF NOT EXISTS job (
    key TEXT PRIMARY KEY,
    guid TEXT NOT NULL,
    cluster TEXT NOT NULL,
    node_count INTEGER NOT NULL,
    priority INTEGER NOT NULL,     -- higher first
    state TEXT NOT NULL,
    changed REAL NOT NULL,
    output_root TEXT NOT NULL,     -- the folder that the output path segment is below
    python TEXT NOT NULL,          -- the interpreter that submitted it
    needs_secrets INTEGER NOT NULL,
    engine TEXT NOT NULL,          -- the command (JSON list) that runs its containers, [] for the host
    is_assigned INTEGER NOT NULL DEFAULT 0,
    spawner TEXT NOT NULL DEFAULT '',
    supervisor TEXT NOT NULL DEFAULT '',
    stop TEXT NOT NULL DEFAULT '', -- '', 'terminate' or 'requeue'
    started REAL,
    ended REAL,
    exit_code INTEGER,
    errors TEXT NOT NULL DEFAULT '[]',
    ranks TEXT NOT NULL DEFAULT '[]'
) STRICT;
CREATE INDEX IF NOT EXISTS job_state ON job (state, cluster);
"""


class Store:
    """The open database. `read` and `write` give a connection; `write` is one transaction."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reserve = path.with_name("reserve")
        self._lock = threading.RLock()
        self._pid = 0
        self._connection: sqlite3.Connection | None = None
        self._finalizer: weakref.finalize[..., Store] | None = None

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection to select with."""
        with self._lock, _translated(self._path):
            yield self._open()

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction that no other process writes beside; undone when the block raises."""
        with self._lock, _translated(self._path):
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def make_reserve(self) -> None:
        """Sets room aside for bad times; StorageError when the disk has no room now."""
        _make_folder(self._path.parent)
        try:
            if not self._reserve.exists() or self._reserve.stat().st_size < RESERVE_BYTES:
                self._reserve.write_bytes(bytes(RESERVE_BYTES))
        except OSError as error:
            hint = "Free some space and try again; nothing was written."
            text = f"{self._path.parent} cannot be used: {error.strerror}"
            raise StorageError(text, code="DiskFull", hint=hint) from error

    def use_reserve(self) -> None:
        """Gives the reserve away, so that a full disk takes a last few words."""
        self._reserve.unlink(missing_ok=True)

    def close(self) -> None:
        """Lets go of the file; the next use opens it again."""
        with self._lock:
            if self._finalizer:
                self._finalizer()
            self._connection = self._finalizer = None

    def _open(self) -> sqlite3.Connection:
        # A forked child must not use its parent's connection, and must not close it either.
        if self._connection is None or self._pid != os.getpid():
            _make_folder(self._path.parent)
            connection = sqlite3.connect(
                self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
            )
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(_SCHEMA)
            self._connection, self._pid = connection, os.getpid()
            self._finalizer = weakref.finalize(self, _close, connection, os.getpid())
        return self._connection


def _close(connection: sqlite3.Connection, pid: int) -> None:
    if pid == os.getpid():
        connection.close()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        hint = "Set BATCHAI_HOME to a folder that you can write."
        raise StorageError(f"{folder} cannot be used: {error.strerror}", hint=hint) from error


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        full = "full" in str(error) or "disk I/O" in str(error)
        hint = "Free some space and try again; what was saved before is intact." if full else ""
        code = "DiskFull" if full else "StoreUnavailable"
        raise StorageError(f"{path} cannot be used: {error}", code=code, hint=hint) from error
