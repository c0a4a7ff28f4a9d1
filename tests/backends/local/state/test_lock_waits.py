"""Who meets a transaction of another: how often it tries, what it does meanwhile, and what it is told."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from batchai_magics.backends.local.state import database_errors
from batchai_magics.backends.local.state import store as module
from batchai_magics.backends.local.state.lock_holder import LockHolder
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.errors import StorageError

STOPPED = LockHolder(8, "batchai", is_stopped=True)
LOCKED_MS = 5


class Helping(Store):
    """A store that ends the other's transaction when it has met it some times; a try takes a second."""

    def __init__(self, path: Path, other: Database, *, tries: int) -> None:
        super().__init__(path)
        self.other, self.tries, self.now_s = other, tries, 100.0
        self.timeouts_ms: list[int] = []

    def unlock(self, db: Database) -> None:
        self.timeouts_ms.append(timeout_ms(db))
        self.now_s += 1.0
        if len(self.timeouts_ms) == self.tries:
            self.other.execute("ROLLBACK")


def timeout_ms(db: Database) -> int:
    return int(db.execute("PRAGMA busy_timeout").fetchone()[0])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "state.db"


@pytest.fixture
def other(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A connection that is in a transaction."""
    monkeypatch.setattr(module, "LOCKED_S", LOCKED_MS / 1000)
    monkeypatch.setattr(module, "writer_of", {path: STOPPED}.__getitem__)
    store = Store(path)
    with store.read() as db:
        db.execute("BEGIN IMMEDIATE")
    yield db
    store.close()


def stand_on(store: Helping, monkeypatch: pytest.MonkeyPatch) -> Helping:
    """The store, whose clock goes on with its tries alone."""
    monkeypatch.setattr(database_errors, "time", SimpleNamespace(monotonic=lambda: store.now_s))
    return store


def test_a_lock_is_tried_again_each_time_something_was_done_about_it(
    path: Path, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = stand_on(Helping(path, other, tries=1), monkeypatch)
    with store.write() as db:
        assert (db.in_transaction, timeout_ms(db)) == (True, 30_000)
    assert store.timeouts_ms == [LOCKED_MS]


def test_who_is_stopped_is_told_once_while_others_wait(
    path: Path, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = stand_on(Helping(path, other, tries=5), monkeypatch)
    with pytest.warns(RuntimeWarning) as told, store.write():
        pass
    (warning,) = (each for each in told if each.category is RuntimeWarning)
    assert f"{path} cannot be changed yet: process 8" in str(warning.message)
    assert "up to 28 s more" in str(warning.message)
    assert len(store.timeouts_ms) == 5


@pytest.mark.filterwarnings("ignore:.*cannot be changed yet")
def test_a_lock_that_is_never_let_go_is_told_when_the_time_is_over(
    path: Path, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_errors, "writer_of", {path: STOPPED}.__getitem__)
    store = stand_on(Helping(path, other, tries=100), monkeypatch)
    with (
        pytest.raises(StorageError, match=r"process 8 \(batchai\) has it locked and is stopped"),
        store.write(),
    ):
        pytest.fail("two transactions are open for writing")
    assert store.timeouts_ms == [LOCKED_MS] * 30
    with store.read() as db:
        assert timeout_ms(db) == 30_000


def test_what_is_no_lock_is_told_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(path)
    with store.read() as db:
        db.execute("PRAGMA query_only = ON")
    monkeypatch.setattr(store, "unlock", lambda db: pytest.fail("nobody has it locked"))
    with pytest.raises(StorageError, match="readonly database") as caught, store.write():
        pytest.fail("a transaction where nothing can be written")
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
