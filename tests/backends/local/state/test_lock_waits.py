"""Who meets a transaction of another: how often it tries, and what it does meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.errors import StorageError

STUCK_S = 0.005


class Helping(Store):
    """A store that ends the other's transaction when it has met it some times."""

    def __init__(self, path: Path, other: Database, *, tries: int, busy_s: float = 30.0) -> None:
        super().__init__(path, busy_s=busy_s, stuck_s=STUCK_S)
        self.other, self.tries = other, tries
        self.timeouts_ms: list[int] = []

    def unlock(self, db: Database) -> None:
        self.timeouts_ms.append(timeout_ms(db))
        if len(self.timeouts_ms) == self.tries:
            self.other.execute("ROLLBACK")


class Alone(Store):
    """A store that nobody else has locked."""

    def unlock(self, db: Database) -> None:
        pytest.fail("nobody has locked it")


def timeout_ms(db: Database) -> int:
    return int(db.execute("PRAGMA busy_timeout").fetchone()[0])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "state.db"


@pytest.fixture
def other(path: Path) -> Iterator[Database]:
    """A connection that is in a transaction."""
    store = Store(path)
    with store.read() as db:
        db.execute("BEGIN IMMEDIATE")
    yield db
    store.close()


@pytest.mark.parametrize("tries", [1, 5])
def test_a_lock_is_tried_again_each_time_something_was_done_about_it(
    path: Path, other: Database, tries: int
) -> None:
    store = Helping(path, other, tries=tries)
    with store.write() as db:
        assert (db.in_transaction, timeout_ms(db)) == (True, 30_000)
    assert store.timeouts_ms == [5] * tries


def test_what_is_no_lock_is_told_at_once(path: Path) -> None:
    store = Alone(path)
    with store.read() as db:
        db.execute("PRAGMA query_only = ON")
    with pytest.raises(StorageError, match="readonly database") as caught, store.write():
        pytest.fail("a transaction where nothing can be written")
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
