"""The database: one writer at a time, all or nothing, nothing shared by a fork."""

from __future__ import annotations

import _thread
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from batchai_magics.backends.local.state.store import Store
from batchai_magics.cell.cell_uploads import read_uploads
from batchai_magics.errors import StorageError
from batchai_magics.jobs.folder_snapshot import snapshot
from tests.backends.local.state.database.rows import CLUSTER, count

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


def test_nobody_else_writes_while_a_transaction_is_open(store: Store, path: Path) -> None:
    other = Store(path, busy_s=0.0)
    assert count(store) == count(other) == 0
    with store.write():
        with pytest.raises(StorageError, match="locked"), other.write():
            pytest.fail("two transactions are open for writing")
        assert count(other) == 0  # reading goes on
    with other.write() as db:
        db.execute(CLUSTER, ("g",))
    assert count(store) == 1


def test_who_comes_second_waits_for_the_first(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "home" / "state.db")
    assert count(other) == 0
    is_trying = threading.Event()

    def second() -> None:
        is_trying.set()
        with other.write() as db:
            db.execute(CLUSTER, (f"after {count(other)}",))

    with ThreadPoolExecutor() as pool:
        with store.write() as db:
            done = pool.submit(second)
            assert is_trying.wait(60)
            db.execute(CLUSTER, ("g",))
        done.result(60)
    with store.read() as db:
        assert [guid for (guid,) in db.execute("SELECT guid FROM cluster")] == ["after 1", "g"]


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt])
def test_a_block_that_raises_writes_nothing(store: Store, problem: type[BaseException]) -> None:
    def interrupted() -> None:
        with store.write() as db:
            db.execute(CLUSTER, ("g",))
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
def test_a_transaction_begins_after_one_that_was_left_open(store: Store, begin: str) -> None:
    with store.read() as db:
        db.execute("BEGIN")  # as an interrupt leaves it
    with getattr(store, begin)():
        pass
    with store.write() as db:
        assert db.execute("PRAGMA quick_check").fetchone()


def test_what_an_interrupt_left_half_read_keeps_nobody_from_writing(store: Store, path: Path) -> None:
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
def test_to_open_a_store_again_leaves_the_locks_of_who_has_it_open(store: Store, path: Path) -> None:
    """Else another process takes itself for the last one, and its log of changes goes with it."""
    assert count(store) == count(Store(path)) == 0
    assert is_locked(path)


@pytest.mark.slow
def test_to_upload_the_folder_of_a_home_leaves_the_locks_of_its_store(store: Store, path: Path) -> None:
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


def test_an_interrupt_of_a_look_within_a_transaction_undoes_the_transaction(store: Store) -> None:
    def interrupted() -> None:
        with store.write() as db:
            db.execute(CLUSTER, ("a",))
            with store.read():
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert count(store) == 0


def test_a_crash_of_the_machine_loses_nothing_that_was_committed(store: Store) -> None:
    with store.read() as db:
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert db.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL: on the disk before it is said


@pytest.mark.slow
def test_a_forked_child_opens_the_file_for_itself(store: Store, tmp_path: Path) -> None:
    count(store)
    argv = [sys.executable, "-c", FORK, str(tmp_path / "home" / "state.db")]
    assert (
        subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        == "child: own\nparent: same\n"
    )
