"""The state of the local backend: one SQLite file, safe for many processes at once.

Only what must survive is here; what can be counted (node states, allocation) is counted when asked for.
No secret of a job is ever written. The keys of this machine's storage accounts are: the file and its folder
are their owner's alone, as are the shares beside it, which is all that these keys open.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from batchai_magics.backends.folders import private
from batchai_magics.backends.local.state import database_errors
from batchai_magics.backends.local.state.database_errors import DISK_FULL, translate_errors
from batchai_magics.backends.local.state.database_file import BUSY_S, DatabaseFile
from batchai_magics.backends.local.state.disk_reserve import DiskReserve
from batchai_magics.backends.local.state.lock_holder import writer_of
from batchai_magics.errors import StorageError

T = TypeVar("T")

Database = sqlite3.Connection  # what reads and changes rows, open, or in a transaction
LOCKED_S = 1.0  # a transaction of another process that lasts longer may never end by itself


class Store:
    """The open database. `read` and `write` give a connection; `write` is one transaction.

    Unless `may_make`, a database that is not there is an error. One that is deleted or replaced while it is
    open is an error too, once; a deleted one for all who only read, until somebody creates something.
    """

    def __init__(self, path: Path, *, may_make: bool = True) -> None:
        self._path = path
        self.reserve = DiskReserve(path.with_name("reserve"))
        self._lock = threading.RLock()
        self._may_make = may_make
        self._is_lost = False
        self._file: DatabaseFile | None = None

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection to select with."""
        with self._lock, translate_errors(self._path), self._closed_on_interrupt():
            yield self._open().connection

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction that no other process writes beside; undone when the block raises."""
        with self._lock, translate_errors(self._path), self._closed_on_interrupt():
            file = self._open()
            if file.is_copy:
                raise database_errors.read_only(self._path.parent)
            connection = file.connection
            try:
                self._begin(connection)  # an interrupt is told when it has begun, even if it came long before
                file.preallocate_wal()
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def insist(self, change: Callable[[Database], T]) -> T:
        """What a transaction gives that ends or frees something: on a full disk it has the reserve."""

        def changed() -> T:
            with self.write() as db:
                return change(db)

        return self._with_reserve(changed)

    @property
    def is_read_only(self) -> bool:
        """Whether it can be read and not be changed: its disk is read-only."""
        with self._lock, translate_errors(self._path):
            return self._open().is_copy

    def make_reserve(self) -> None:
        """Sets room aside for bad times; StorageError when the disk has no room now."""
        private.make_home(self._path.parent)
        self._is_lost = False
        try:
            self.reserve.allocate()
        except OSError as error:
            raise database_errors.no_room(self._path.parent, error) from error

    def close(self) -> None:
        """Lets go of the file; the next use opens it again."""
        with self._lock:
            if self._file:
                self._file.close()
            self._file = None

    @contextlib.contextmanager
    def _closed_on_interrupt(self) -> Iterator[None]:
        """An interrupt within it closes the file, which the next use opens anew.

        Whoever shows the interrupt keeps what it left half read: nothing could be written beside that.
        """
        try:
            yield
        except KeyboardInterrupt:
            if not (self._file and self._file.connection.in_transaction):  # else its end does it
                self.close()
            raise

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Begins a transaction; while another one lasts for long, `unlock` may do something about it."""
        wait = database_errors.LockWait(self._path, BUSY_S, writer_of)
        with _busy_timeout(connection, min(LOCKED_S, BUSY_S)):
            while True:
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    if not database_errors.is_locked_error(error) or wait.is_over:
                        raise
                self.unlock(connection)
                wait.warn_if_stopped()

    def unlock(self, db: Database) -> None:
        """Does what helps another process to end its transaction; this class only waits for it."""

    def _open(self) -> DatabaseFile:
        file = self._file
        if file and file.is_of_this_process:
            if file.is_there:
                return file
            self.close()
            if not file.is_copy:
                raise self._lost_error()
        if self._is_lost and not self._path.exists():
            raise database_errors.missing(self._path)
        self._is_lost = False
        self._file = self._with_reserve(self._opened)
        return self._file

    def _opened(self) -> DatabaseFile:
        with translate_errors(self._path):
            return DatabaseFile(self._path, may_make=self._may_make)

    def _with_reserve(self, do: Callable[[], T]) -> T:
        """What it gives: while the disk is full, it has one slice of the reserve after the other."""
        has_given = False
        while True:
            try:
                done = do()
                break
            except StorageError as error:
                if error.code != DISK_FULL or not self.reserve.release_slice():
                    raise
                has_given = True
        if has_given:
            self.reserve.refill()
        return done

    def _lost_error(self) -> StorageError:
        self._is_lost = not self._path.exists()
        return database_errors.missing(self._path) if self._is_lost else database_errors.replaced(self._path)


@contextlib.contextmanager
def _busy_timeout(connection: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Within it, SQLite waits that long for a lock."""
    connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA busy_timeout = {round(BUSY_S * 1000)}")
