"""The database: one writer at a time, all or nothing, room kept for bad times, nothing shared by a fork."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from batchai_magics.backends.local.state import store as module
from batchai_magics.backends.local.state.store import RESERVE_BYTES, Store
from batchai_magics.errors import StorageError

GROUP = "INSERT INTO resource_group VALUES (?, 'g', 'here', '{}')"
COUNT = "SELECT count(*) FROM resource_group"

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


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home" / "state.db")


def count(store: Store) -> int:
    with store.read() as db:
        return db.execute(COUNT).fetchone()[0]


def test_nobody_else_writes_while_a_transaction_is_open(store: Store, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(module, "BUSY_S", 0.0)
    other = Store(tmp_path / "home" / "state.db")
    assert count(store) == count(other) == 0
    with store.write():
        with pytest.raises(StorageError, match="locked"), other.write():
            pytest.fail("two transactions are open for writing")
        assert count(other) == 0  # reading goes on
    with other.write() as db:
        db.execute(GROUP, ("g",))
    assert count(store) == 1


def test_who_comes_second_waits_for_the_first(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "home" / "state.db")
    assert count(other) == 0
    is_trying = threading.Event()

    def second() -> None:
        is_trying.set()
        with other.write() as db:
            db.execute(GROUP, (f"after {count(other)}",))

    with ThreadPoolExecutor() as pool:
        with store.write() as db:
            done = pool.submit(second)
            assert is_trying.wait(60)
            db.execute(GROUP, ("g",))
        done.result(60)
    with store.read() as db:
        assert [key for (key,) in db.execute("SELECT key FROM resource_group")] == ["after 1", "g"]


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt])
def test_a_block_that_raises_writes_nothing(store: Store, problem: type[BaseException]) -> None:
    def interrupted() -> None:
        with store.write() as db:
            db.execute(GROUP, ("g",))
            raise problem

    with pytest.raises(problem):
        interrupted()
    assert count(store) == 0
    with store.write() as db:
        db.execute(GROUP, ("g",))
    assert count(store) == 1


def test_what_was_written_is_there_for_the_next_to_open_it(store: Store, tmp_path: Path) -> None:
    with store.write() as db:
        db.execute(GROUP, ("g",))
    store.close()
    assert count(store) == 1
    assert count(Store(tmp_path / "home" / "state.db")) == 1


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


def test_nobody_else_may_look_into_the_home(store: Store, tmp_path: Path) -> None:
    count(store)
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


def test_room_is_set_aside_once_and_given_away_when_it_is_needed(store: Store, tmp_path: Path) -> None:
    reserve = tmp_path / "home" / "reserve"
    store.make_reserve()
    assert reserve.stat().st_size == RESERVE_BYTES
    before = reserve.stat().st_mtime_ns
    store.make_reserve()
    assert reserve.stat().st_mtime_ns == before
    store.use_reserve()
    store.use_reserve()
    assert not reserve.exists()


def test_a_reserve_that_was_cut_short_is_made_whole(store: Store, tmp_path: Path) -> None:
    store.make_reserve()
    (tmp_path / "home" / "reserve").write_bytes(b"x")
    store.make_reserve()
    assert (tmp_path / "home" / "reserve").stat().st_size == RESERVE_BYTES


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("database or disk is full", "DiskFull"),
        ("disk I/O error", "DiskFull"),
        ("unable to open database file", "StoreUnavailable"),
    ],
)
def test_what_sqlite_complains_of_is_said_in_our_words(store: Store, words: str, code: str) -> None:
    with pytest.raises(StorageError, match=r"state\.db") as caught, store.read():
        raise sqlite3.OperationalError(words)
    assert caught.value.code == code
    assert bool(caught.value.hint) is (code == "DiskFull")
