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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from batchai_magics.backends.local.state import migrations
from batchai_magics.errors import StorageError

Database = sqlite3.Connection  # what reads and changes rows, open, or in a transaction
MOST_KEYS = 500  # in one question: SQLite takes 999 values on older machines
BUSY_S = 30.0
RESERVE_BYTES = 1 << 20  # room in which the outcome of a job is written when the disk is full


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
            try:
                _set_up(connection, self._path)
            except BaseException:
                connection.close()
                raise
            self._connection, self._pid = connection, os.getpid()
            self._finalizer = weakref.finalize(self, _close, connection, os.getpid())
        return self._connection


def _set_up(connection: Database, path: Path) -> None:
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    migrations.bring_up_to_date(connection, path)


def rows_of_keys(db: Database, table: str, keys: Sequence[str]) -> Iterator[sqlite3.Row]:
    """The rows of a table that have these keys."""
    for start in range(0, len(keys), MOST_KEYS):
        part = keys[start : start + MOST_KEYS]
        marks = ", ".join("?" * len(part))
        yield from db.execute(f"SELECT * FROM {table} WHERE key IN ({marks})", part).fetchall()


def columns(row: sqlite3.Row) -> dict[str, Any]:
    """The values of a row by the names of its columns."""
    return dict(zip(row.keys(), row, strict=True))


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
