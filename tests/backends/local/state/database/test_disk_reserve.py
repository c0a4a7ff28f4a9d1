"""Room kept for bad times: set aside, given away, and made whole."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.local.state import database_file
from batchai_magics.backends.local.state.store import RESERVE_BYTES, SLICE_BYTES, Store
from batchai_magics.errors import StorageError
from tests.backends.local.state.database.rows import CLUSTER, COUNT, count, written


def test_room_is_set_aside_once_and_given_away_slice_by_slice(store: Store, tmp_path: Path) -> None:
    reserve = tmp_path / "home" / "reserve"
    store.make_reserve()
    assert reserve.stat().st_size == RESERVE_BYTES
    before = reserve.stat().st_mtime_ns
    store.make_reserve()
    assert reserve.stat().st_mtime_ns == before
    given = [
        reserve.stat().st_size for _ in range(RESERVE_BYTES // SLICE_BYTES) if store.reserve.release_slice()
    ]
    assert given == list(range(RESERVE_BYTES - SLICE_BYTES, -1, -SLICE_BYTES))
    assert not store.reserve.release_slice()
    store.reserve.refill()
    assert reserve.stat().st_size == RESERVE_BYTES


def test_a_reserve_that_was_never_made_or_is_dropped_is_not_filled(store: Store, tmp_path: Path) -> None:
    store.make_reserve()
    store.reserve.delete()
    store.reserve.refill()
    assert not (tmp_path / "home" / "reserve").exists()
    assert (store.reserve.size_bytes, store.reserve.release_slice()) == (0, False)


def test_a_reserve_that_was_cut_short_is_made_whole(store: Store, tmp_path: Path) -> None:
    store.make_reserve()
    (tmp_path / "home" / "reserve").write_bytes(b"x")
    store.make_reserve()
    assert (tmp_path / "home" / "reserve").stat().st_size == RESERVE_BYTES


def test_what_ends_something_has_the_reserve_of_a_full_disk_until_it_is_used_up(store: Store) -> None:
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


def test_what_never_finds_room_is_refused_when_the_reserve_is_used_up(store: Store) -> None:
    store.make_reserve()

    def change(db: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with pytest.raises(StorageError, match="full"):
        store.insist(change)
    assert store.reserve.size_bytes == 0


def test_the_first_change_keeps_room_for_later_ones(store: Store, path: Path) -> None:
    count(store)
    written(store)
    log = path.with_name("state.db-wal").stat()
    assert log.st_blocks * 512 >= log.st_size == database_file.WAL_BYTES
    for number in range(30):  # SQLite has begun its log anew
        written(store, f"{number:0100000}")
    assert path.with_name("state.db-wal").stat().st_size == database_file.WAL_BYTES
    assert count(Store(path)) == 31


def test_what_has_not_used_the_reserve_does_not_fill_it(store: Store) -> None:
    store.make_reserve()
    assert store.reserve.release_slice()
    store.insist(lambda db: db.execute(COUNT).fetchone())
    assert store.reserve.size_bytes == RESERVE_BYTES - SLICE_BYTES


def test_nothing_else_takes_the_reserve(store: Store, path: Path) -> None:
    store.make_reserve()

    def change(db: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("database is locked")

    with pytest.raises(StorageError, match="locked"):
        store.insist(change)
    assert path.with_name("reserve").exists()


def test_a_reserve_that_cannot_be_written_is_said_before_anything_is(store: Store, path: Path) -> None:
    private_files.make_folder(path.with_name("reserve"))
    with pytest.raises(StorageError, match=f"{path.parent} cannot be used: Is a directory") as caught:
        Store(path).make_reserve()
    assert (caught.value.code, path.exists()) == ("DiskFull", False)
