"""The state of the local backend: one SQLite file, shared by many processes.

Derived values (node counts, allocation state) are computed when read. Secrets of jobs are never written. Keys
of storage accounts are: the file is private to its owner, as are the shares, which is all they open.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.local import process
from batchai_magics.backends.local.state import database_file, job_table, node_table
from batchai_magics.backends.local.state.database_file import (
    BUSY_S,
    DISK_FULL,
    DatabaseFile,
    translate_errors,
)
from batchai_magics.errors import StorageError

RESERVE_BYTES = 1 << 20
SLICE_BYTES = 1 << 16  # released at a time: other processes may take the space first


class DiskReserve:
    """A placeholder file beside the database; any process may shrink or refill it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def size_bytes(self) -> int:
        """The remaining size; 0 without a file."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def allocate(self) -> None:
        """Allocates it fully; on OSError (full disk) keeps what there is."""
        if self.size_bytes >= RESERVE_BYTES:
            return
        with open(self.path, "ab", buffering=0, opener=private_files.opener) as file:
            while (missing := RESERVE_BYTES - file.seek(0, os.SEEK_END)) > 0:
                file.write(bytes(min(missing, SLICE_BYTES)))

    def refill(self) -> None:
        """Refills it as far as there is space, if it exists."""
        with contextlib.suppress(OSError):
            if self.path.exists():
                self.allocate()

    def release_slice(self) -> bool:
        """Frees a slice of it; False if nothing was left."""
        size = self.size_bytes
        with contextlib.suppress(OSError):
            os.truncate(self.path, max(size - SLICE_BYTES, 0))
        return size > 0

    def delete(self) -> None:
        """Deletes the file."""
        with contextlib.suppress(OSError):
            self.path.unlink()


T = TypeVar("T")

Database = sqlite3.Connection  # an open connection, or one in a transaction
LOCKED_S = 1.0  # another process's transaction that lasts longer may be stuck


class Store:
    """The open database. `read` and `write` yield a connection; `write` is one transaction.

    When the write lock is held for long, supervisors of open jobs and node preparers get SIGCONT, since a
    stopped one may hold it. Readers need no lock.

    A missing database is an error unless `may_make`. One that is deleted or replaced while open raises once;
    a deleted one keeps raising until `make_reserve` is called to create something.
    """

    def __init__(
        self, path: Path, *, may_make: bool = True, busy_s: float = BUSY_S, stuck_s: float = LOCKED_S
    ) -> None:
        """`busy_s` is how long a lock is waited for; after each `stuck_s` of that `unlock` is called."""
        self.path = path
        self._busy_s, self._stuck_s = busy_s, stuck_s
        self.reserve = DiskReserve(path.with_name("reserve"))
        self._lock = threading.RLock()
        self._may_make = may_make
        self._is_lost = False
        self._file: DatabaseFile | None = None
        self._opened_count = 0
        self._snapshot: contextlib.ExitStack | None = None
        self._is_writing = False
        self._owner: int | None = None  # the thread whose snapshot or transaction that is

    @contextlib.contextmanager
    def read(self) -> Iterator[Database]:
        """Yields a connection for queries."""
        with self._lock:
            try:
                yield self._open().connection
            except sqlite3.Error as error:
                database_file.raise_translated(self.path, error)
            except KeyboardInterrupt:
                # The traceback may keep a half-read cursor alive, which would block writers.
                if not (self._file and self._file.connection.in_transaction):  # else the rollback releases it
                    self.close()
                raise

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Within it, all reads of this thread are of one moment, until it writes."""
        if self._owner == threading.get_ident():  # it is in a snapshot or transaction
            yield
            return
        with contextlib.ExitStack() as stack:
            db = stack.enter_context(self.read())
            stack.callback(self._end_snapshot, db)
            self._roll_back_interrupted()
            db.execute("BEGIN")
            self._snapshot, self._owner = stack, threading.get_ident()
            yield

    def leave_snapshot(self) -> None:
        """Ends the snapshot of this thread, if any: within one, a thread must not wait for another lock."""
        if self._snapshot and self._owner == threading.get_ident():
            self._snapshot.close()

    @contextlib.contextmanager
    def write(self, *, waits_for_disk: bool = True) -> Iterator[sqlite3.Connection]:
        """Yields an exclusive write transaction; rolled back if the block raises.

        It joins an outer transaction of this thread, and ends a snapshot. One that does not wait for the disk
        is visible to all, but a loss of power may undo it until a later transaction of any process waits for
        the disk, which gets them in order.
        """
        with self.read() as connection:
            if self.is_writing:
                yield connection
                return
            self.leave_snapshot()
            file = self._open()
            if file.is_copy:
                raise database_file.read_only(self.path.parent)
            connection, level = file.connection, "FULL" if waits_for_disk else "NORMAL"
            try:
                self._begin(connection, level)  # a pending KeyboardInterrupt is raised here
                self._is_writing, self._owner = True, threading.get_ident()
                file.preallocate_wal()
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._is_writing, self._owner = False, None

    def insist(self, change: Callable[[Database], T]) -> T:
        """Runs a transaction that ends or frees something; on a full disk it may use the reserve."""

        def changed() -> T:
            with self.write() as db:
                return change(db)

        return self._with_reserve(changed)

    @property
    def is_writing(self) -> bool:
        """Whether this thread is in a write transaction."""
        return self._is_writing and self._owner == threading.get_ident()

    @property
    def version(self) -> str:
        """Text that differs after each change of the database, by whichever process."""
        with self.read() as db:
            (others,) = db.execute("PRAGMA data_version").fetchone()
            return f"{self._opened_count}.{others}.{db.total_changes}"

    @property
    def is_read_only(self) -> bool:
        """Whether its disk is read-only."""
        with self.read():
            return self._open().is_copy

    def check_version(self) -> None:
        """Raises StorageError if another version made the store: call it before anything else is written."""
        if self.path.exists():
            with self.read():
                pass

    def make_reserve(self) -> None:
        """Allocates the disk reserve, in a home of its own; StorageError on a full or read-only disk."""
        self.check_version()
        private_files.make_home(self.path.parent)
        if private_files.is_read_only(self.path.parent):
            raise database_file.read_only(self.path.parent)
        self._is_lost = False
        try:
            self.reserve.allocate()
        except OSError as error:
            raise database_file.no_room(self.path.parent, error) from error

    def close(self) -> None:
        """Closes the file; the next use reopens it."""
        with self._lock:
            if self._file:
                self._file.close()
            self._file = None

    def _end_snapshot(self, db: Database) -> None:
        self._snapshot = self._owner = None
        if self._file and self._file.connection.in_transaction:
            db.execute("COMMIT")

    def _roll_back_interrupted(self) -> None:
        """Rolls back what an interrupt of this thread left open between two statements."""
        if self._file and self._file.connection.in_transaction:
            self._file.connection.execute("ROLLBACK")

    def _begin(self, connection: sqlite3.Connection, synchronous: str) -> None:
        """Begins a transaction; calls `unlock` while another process holds the lock for long."""
        self._roll_back_interrupted()
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        deadline_s = time.monotonic() + self._busy_s
        busy_timeout = "PRAGMA busy_timeout = {:.0f}"  # in milliseconds
        connection.execute(busy_timeout.format(1000 * min(self._stuck_s, self._busy_s)))
        try:
            while True:
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    if not database_file.is_locked_error(error) or time.monotonic() >= deadline_s:
                        raise
                self.unlock(connection)
        finally:
            connection.execute(busy_timeout.format(1000 * self._busy_s))

    def unlock(self, db: Database) -> None:
        """Resumes supervisors of open jobs and node preparers."""
        supervisors = [job.supervisor for job in job_table.open_and_watched(db)]
        for name in (*supervisors, *node_table.preparers(db)):
            process.resume(name)

    def _open(self) -> DatabaseFile:
        file = self._file
        if file and file.pid == os.getpid():
            if self._snapshot or file.is_there:
                return file
            self.close()
            if not file.is_copy:
                self._is_lost = not self.path.exists()
                error = database_file.missing if self._is_lost else database_file.replaced
                raise error(self.path)
        if self._is_lost and not self.path.exists():
            raise database_file.missing(self.path)
        self._is_lost = False

        def opened() -> DatabaseFile:
            with translate_errors(self.path):
                return DatabaseFile(self.path, may_make=self._may_make, busy_s=self._busy_s)

        self._file = self._with_reserve(opened)
        self._opened_count += 1
        return self._file

    def _with_reserve(self, do: Callable[[], T]) -> T:
        """Calls `do`, again after each released slice of the reserve while the disk is full."""
        has_given = False
        while True:
            try:
                done = do()
                break
            except StorageError as error:
                if error.code != DISK_FULL or self.is_writing or not self.reserve.release_slice():
                    raise
                has_given = True
        if has_given:
            self.reserve.refill()
        return done
