"""The database: one writer, all or nothing; its file deleted, replaced, damaged, read-only; its reserve."""

from __future__ import annotations

import _thread
import contextlib
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.local.state import database_file
from batchai_magics.backends.local.state.store import RESERVE_BYTES, SLICE_BYTES, Store
from batchai_magics.cell.cell_uploads import read_uploads
from batchai_magics.errors import StorageError
from batchai_magics.jobs.folder_snapshot import snapshot
from tests.backends.local.state.rows import CLUSTER, COUNT, count, refused, written


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home" / "state.db")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "state.db"


@pytest.fixture
def read_only(store: Store, path: Path, monkeypatch) -> Store:
    """A store whose folder nobody may write to, with a change that is in the journal alone."""
    written(store)
    monkeypatch.setattr(private_files, "is_read_only", lambda folder: folder == path.parent)
    return Store(path)


# -- the file


def test_a_file_that_was_replaced_is_noticed_once_and_then_used(store: Store, path: Path) -> None:
    written(store)
    other = Store(path.parent.parent / "other" / "state.db")
    other.make_reserve()
    written(other, "a")
    written(other, "b")
    other.close()
    shutil.rmtree(path.parent)
    (path.parent.parent / "other").rename(path.parent)
    error = refused(store)
    assert (error.code, str(path) in error.message) == ("StoreReplaced", True)
    assert count(store) == 2


def test_a_file_that_was_deleted_is_missed_until_something_is_created(store: Store, path: Path) -> None:
    written(store)
    shutil.rmtree(path.parent)
    error = refused(store)
    assert (error.code, str(path) in error.message, "create" in error.hint) == ("StoreMissing", True, True)
    assert refused(store).code == "StoreMissing"
    assert not path.parent.exists()
    store.make_reserve()
    assert count(store) == 0


def test_a_file_that_came_back_is_used(store: Store, path: Path) -> None:
    written(store)
    path.rename(path.with_name("elsewhere"))
    assert refused(store).code == "StoreMissing"
    path.with_name("elsewhere").rename(path)
    assert count(store) == 1


def test_transaction_in_a_deleted_file_is_refused_before_it_begins(store: Store, path: Path) -> None:
    written(store)
    shutil.rmtree(path.parent)
    with pytest.raises(StorageError, match="deleted while it was in use"):
        written(store, "lost")


@pytest.mark.parametrize("content", [None, b""])
def test_missing_database_is_an_error_unless_it_may_be_created(path: Path, content: bytes | None) -> None:
    path.parent.mkdir()
    if content is not None:
        path.write_bytes(content)
    before = path.exists() and path.stat().st_size
    assert refused(Store(path, may_make=False)).code == "StoreMissing"
    assert (path.exists() and path.stat().st_size) in (before, 4096)  # its journal mode, and no table


@pytest.mark.parametrize("damage", ["garbage", "cut"])
def test_a_damaged_file_is_named_with_a_way_out(store: Store, path: Path, damage: str) -> None:
    written(store)
    store.close()
    size = path.stat().st_size
    path.write_bytes(b"garbage " * 1000 if damage == "garbage" else path.read_bytes()[: size // 3])
    error = refused(store)
    assert (error.code, str(path) in error.message) == ("StoreDamaged", True)
    assert "Move it away" in error.hint
    assert str(path.parent / "jobs") in error.hint


def test_empty_database_file_is_replaced_by_a_new_one(store: Store, path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.touch()
    with path.open("rb") as held:  # its number is not given to another file
        assert count(store) == 0
        assert path.stat().st_ino != os.fstat(held.fileno()).st_ino


def test_invalid_journal_is_not_reported_as_a_full_disk(store: Store, path: Path) -> None:
    written(store)
    with path.with_name("state.db-wal").open("r+b") as file:
        file.truncate(1000)
    error = refused(Store(path))
    assert (error.code, "Move it away" in error.hint) == ("StoreDamaged", True)


def test_programming_error_is_not_reported_as_a_damaged_file(store: Store) -> None:
    written(store)
    with pytest.raises(sqlite3.IntegrityError):
        written(store)


def test_read_only_store_is_read_with_its_latest_changes(read_only: Store, store: Store) -> None:
    assert (read_only.is_read_only, store.is_read_only, count(read_only)) == (True, False, 1)
    written(store, "later")
    assert count(read_only) == 2


def test_read_only_store_refuses_changes_with_a_reason(read_only: Store) -> None:
    with pytest.raises(StorageError, match="is read-only") as caught, read_only.write():
        pytest.fail("a transaction on a copy that goes")
    assert (caught.value.code, "BATCHAI_HOME" in caught.value.hint) == ("StoreReadOnly", True)
    assert count(read_only) == 1


def test_copy_of_a_read_only_store_is_removed_on_close(read_only: Store, tmp_path: Path, monkeypatch) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    count(read_only)
    (copy,) = copies.iterdir()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o700
    read_only.close()
    assert not list(copies.iterdir())
    path = tmp_path / "home" / "state.db"
    path.write_bytes(b"garbage " * 1000)
    path.with_name("state.db-wal").unlink()
    assert refused(read_only).code == "StoreDamaged"
    assert not list(copies.iterdir())


@pytest.mark.parametrize("is_copied", [True, False])
def test_store_is_copied_while_its_last_writer_closes_it(
    read_only: Store, store: Store, monkeypatch, is_copied: bool
) -> None:
    """Who closes it last deletes its WAL: before the WAL was copied, or after."""
    copyfile = shutil.copyfile

    def write_and_close() -> None:
        written(store, "meanwhile")
        store.close()

    def copying(source: Path, target: Path) -> None:
        monkeypatch.setattr(shutil, "copyfile", copyfile if source.name.endswith("-wal") else copying)
        if source.name.endswith("-wal") and not is_copied:
            write_and_close()
        copyfile(source, target)
        if source.name.endswith("-wal"):
            write_and_close()

    monkeypatch.setattr(shutil, "copyfile", copying)
    assert count(read_only) == 2


# -- transactions

FORK = """
import os, sys
from pathlib import Path
from batchai_magics.backends.local.state.store import Store
store = Store(Path(sys.argv[1]))
with store.read() as db:
    parents = db
if not os.fork():
    with store.read() as db:
        print("child:", "parents" if db is parents else "own", flush=True)
    os._exit(0)
os.wait()
with store.read() as db:
    print("parent:", "same" if db is parents else "other")
"""


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("inner", ["write", "read"])
def test_a_block_that_raises_writes_nothing(store: Store, problem: type[BaseException], inner: str) -> None:
    def interrupted() -> None:
        with store.write() as db:
            db.execute(CLUSTER, ("g",))
            with store.read() if inner == "read" else contextlib.nullcontext():
                raise problem

    with pytest.raises(problem):
        interrupted()
    assert count(store) == 0
    with store.write() as db:
        db.execute(CLUSTER, ("g",))
    assert count(store) == 1


def test_an_interrupt_as_a_transaction_begins_leaves_none_open(store: Store, path: Path) -> None:
    with store.read() as db:
        # the signal comes while SQLite runs the statement, so Python raises the interrupt just after it
        db.set_trace_callback(
            lambda text: text == "BEGIN IMMEDIATE" and db.set_progress_handler(_thread.interrupt_main, 1)
        )
    with pytest.raises(KeyboardInterrupt), store.write():
        pytest.fail("it was interrupted before")
    for each, name in ((Store(path, busy_s=0.0), "another"), (store, "the same")):
        with each.write() as db:
            db.execute(CLUSTER, (name,))
    assert count(store) == 2


@pytest.mark.parametrize("begin", ["snapshot", "write"])
def test_transaction_begins_after_an_interrupted_one(store: Store, begin: str) -> None:
    with store.read() as db:
        db.execute("BEGIN")  # as an interrupt leaves it
    with getattr(store, begin)():
        pass
    with store.write() as db:
        assert db.execute("PRAGMA quick_check").fetchone()


class Unlocking(Store):
    """A store that waits a moment for a lock, and ends the other's transaction when it has waited twice."""

    def __init__(self, path: Path, other: sqlite3.Connection | None = None) -> None:
        super().__init__(path, stuck_s=0.005)
        self.other, self.timeouts_ms = other, list[int]()

    def unlock(self, db: sqlite3.Connection) -> None:
        assert self.other, "nobody has locked it"
        self.timeouts_ms.append(timeout_ms(db))
        if len(self.timeouts_ms) == 2:
            self.other.execute("ROLLBACK")


def timeout_ms(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA busy_timeout").fetchone()[0])


def test_lock_is_retried_after_each_attempt_to_unlock(store: Store, path: Path) -> None:
    with store.read() as other:
        other.execute("BEGIN IMMEDIATE")
    waiting = Unlocking(path, other)
    with waiting.write() as db:
        assert timeout_ms(db) == 1000 * database_file.BUSY_S  # that of all statements
    assert waiting.timeouts_ms == [5, 5]


def test_error_other_than_a_lock_is_raised_at_once(path: Path) -> None:
    store = Unlocking(path)
    with store.read() as db:
        db.execute("PRAGMA query_only = ON")
    with pytest.raises(StorageError, match="readonly database"), store.write():
        pytest.fail("a transaction where nothing can be written")


def test_interrupted_read_does_not_block_writers(store: Store, path: Path) -> None:
    """A notebook keeps the traceback, which has the rows that nobody has read yet."""
    with store.write() as db:
        db.executemany(CLUSTER, [("a",), ("b",)])
    left: list[sqlite3.Cursor] = []

    def interrupted() -> None:
        with store.read() as db:
            left.append(db.execute("SELECT guid FROM cluster"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    for each, name in ((Store(path, busy_s=0.0), "another"), (store, "the same")):
        with each.write() as db:
            db.execute(CLUSTER, (name,))
    assert count(store) == 4
    left.clear()


LOCKS_OF_ANOTHER = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)  # as who is the last to close it
"""


@pytest.mark.slow
def test_reopening_a_store_keeps_the_locks_of_its_users(store: Store, path: Path) -> None:
    """Else another process takes itself for the last one, and its log of changes goes with it."""
    assert count(store) == count(Store(path)) == 0
    assert is_locked(path)


@pytest.mark.slow
def test_uploading_the_folder_of_a_home_keeps_the_locks_of_its_store(store: Store, path: Path) -> None:
    """Else another process truncates what SQLite has mapped here, and the kernel dies of a bus error."""
    assert count(store) == 0
    (path.parent / "file").touch()
    assert {*read_uploads(["home"], path.parents[1]).files} == {"home/file"}
    taken = snapshot(path.parents[1])
    assert {*taken.files} == {"home/file"}
    assert taken.left_out.get("home/state.db") == "the database of a home by its name"
    assert is_locked(path)


def is_locked(path: Path) -> bool:
    """Whether a process that opens the database finds it in use."""
    another = subprocess.run([sys.executable, "-c", LOCKS_OF_ANOTHER, str(path)], capture_output=True)
    return b"BlockingIOError" in another.stderr


def test_a_crash_of_the_machine_loses_nothing_that_was_committed(store: Store) -> None:
    with store.read() as db:
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert db.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL: on the disk before it is said


def test_transactions_wait_for_the_disk_unless_told_otherwise(store: Store) -> None:
    def level(**wish: bool) -> int:
        with store.write(**wish) as db:
            return db.execute("PRAGMA synchronous").fetchone()[0]

    assert [level(), level(waits_for_disk=False), level()] == [2, 1, 2]


@pytest.mark.slow
def test_forked_child_opens_the_file_itself(store: Store, tmp_path: Path) -> None:
    count(store)
    argv = [sys.executable, "-c", FORK, str(tmp_path / "home" / "state.db")]
    assert (
        subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        == "child: own\nparent: same\n"
    )


# -- the reserve


def test_reserve_is_allocated_once_and_released_slice_by_slice(store: Store, tmp_path: Path) -> None:
    reserve = tmp_path / "home" / "reserve"
    store.make_reserve()
    assert reserve.stat().st_size == RESERVE_BYTES
    before = reserve.stat().st_mtime_ns
    store.make_reserve()
    assert reserve.stat().st_mtime_ns == before
    reserve.write_bytes(b"cut short")
    store.make_reserve()
    given = [
        reserve.stat().st_size for _ in range(RESERVE_BYTES // SLICE_BYTES) if store.reserve.release_slice()
    ]
    assert given == list(range(RESERVE_BYTES - SLICE_BYTES, -1, -SLICE_BYTES))
    assert not store.reserve.release_slice()
    store.reserve.refill()
    assert reserve.stat().st_size == RESERVE_BYTES


def test_missing_or_deleted_reserve_is_not_refilled(store: Store, tmp_path: Path) -> None:
    store.make_reserve()
    store.reserve.delete()
    store.reserve.refill()
    assert not (tmp_path / "home" / "reserve").exists()
    assert (store.reserve.size_bytes, store.reserve.release_slice()) == (0, False)


def test_insisted_change_uses_the_reserve_on_a_full_disk(store: Store) -> None:
    store.make_reserve()
    tried: list[int] = []

    def change(db: sqlite3.Connection) -> str:
        tried.append(store.reserve.size_bytes)
        if tried[-1] > RESERVE_BYTES - 3 * SLICE_BYTES:
            raise sqlite3.OperationalError("database or disk is full")
        db.execute(CLUSTER, ("g",))
        return "done"

    assert store.insist(change) == "done"
    assert (len(tried), count(store)) == (4, 1)
    assert store.reserve.size_bytes == RESERVE_BYTES  # there is room again


@pytest.mark.parametrize(
    ("problem", "left_bytes"),
    [("database or disk is full", 0), ("database is locked", RESERVE_BYTES)],
)
def test_only_a_full_disk_uses_up_the_reserve(store: Store, problem: str, left_bytes: int) -> None:
    store.make_reserve()

    def change(db: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError(problem)

    with pytest.raises(StorageError, match=problem.rpartition(" ")[2]):
        store.insist(change)
    assert store.reserve.size_bytes == left_bytes


def test_first_change_preallocates_the_wal(store: Store, path: Path) -> None:
    count(store)
    written(store)
    log = path.with_name("state.db-wal").stat()
    assert log.st_blocks * 512 >= log.st_size == database_file.WAL_BYTES
    for number in range(30):  # SQLite has begun its log anew
        written(store, f"{number:0100000}")
    assert path.with_name("state.db-wal").stat().st_size == database_file.WAL_BYTES
    assert count(Store(path)) == 31


def test_change_without_the_reserve_does_not_refill_it(store: Store) -> None:
    store.make_reserve()
    assert store.reserve.release_slice()
    store.insist(lambda db: db.execute(COUNT).fetchone())
    assert store.reserve.size_bytes == RESERVE_BYTES - SLICE_BYTES


def test_unwritable_reserve_is_an_error_before_the_database_is_created(store: Store, path: Path) -> None:
    private_files.make_folder(path.with_name("reserve"))
    with pytest.raises(StorageError, match=f"{path.parent} cannot be used: Is a directory") as caught:
        Store(path).make_reserve()
    assert (caught.value.code, path.exists()) == ("DiskFull", False)
