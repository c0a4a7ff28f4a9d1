"""The file under the database: deleted, replaced, damaged, read-only."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
from pathlib import Path

import pytest

from batchai_magics.backends.local.state.store import Store
from batchai_magics.errors import StorageError
from tests.backends.local.state.database.rows import count, refused, written


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
    store.close()
    assert count(store) == 1
    path.rename(path.with_name("elsewhere"))
    assert refused(store).code == "StoreMissing"
    path.with_name("elsewhere").rename(path)
    assert count(store) == 1


def test_a_file_that_was_deleted_while_it_was_closed_is_made_anew(store: Store, path: Path) -> None:
    written(store)
    store.close()
    shutil.rmtree(path.parent)
    assert count(store) == 0


def test_a_transaction_in_a_file_that_was_deleted_is_refused_before_it_begins(
    store: Store, path: Path
) -> None:
    written(store)
    shutil.rmtree(path.parent)
    with pytest.raises(StorageError, match="deleted while it was in use"):
        written(store, "lost")


@pytest.mark.parametrize("content", [None, b""])
def test_who_may_not_make_a_database_misses_it(path: Path, content: bytes | None) -> None:
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


def test_a_database_of_nothing_is_made_anew_with_another_number(store: Store, path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.touch()
    with path.open("rb") as held:  # its number is not given to another file
        assert count(store) == 0
        assert path.stat().st_ino != os.fstat(held.fileno()).st_ino


def test_a_journal_of_garbage_is_no_full_disk(store: Store, path: Path) -> None:
    written(store)
    with path.with_name("state.db-wal").open("r+b") as file:
        file.truncate(1000)
    error = refused(Store(path))
    assert (error.code, "Move it away" in error.hint) == ("StoreDamaged", True)


def test_a_mistake_of_ours_is_not_called_a_damaged_file(store: Store) -> None:
    written(store)
    with pytest.raises(sqlite3.IntegrityError):
        written(store)


def test_what_is_read_only_can_be_read_with_its_latest_changes(read_only: Store, store: Store) -> None:
    assert read_only.is_read_only
    assert not store.is_read_only
    assert count(read_only) == 1
    written(store, "later")
    assert count(read_only) == 2


def test_what_is_read_only_refuses_a_change_and_says_why(read_only: Store) -> None:
    with pytest.raises(StorageError, match="is read-only") as caught, read_only.write():
        pytest.fail("a transaction on a copy that goes")
    assert (caught.value.code, "BATCHAI_HOME" in caught.value.hint) == ("StoreReadOnly", True)
    assert count(read_only) == 1


def test_the_copy_of_what_is_read_only_goes_when_it_is_closed(
    read_only: Store, tmp_path: Path, monkeypatch
) -> None:
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


def test_a_copy_of_what_changes_meanwhile_is_taken_again(read_only: Store, store: Store, monkeypatch) -> None:
    copyfile, copied = shutil.copyfile, []

    def copying(source: Path, target: Path) -> None:
        copyfile(source, target)
        copied.append(source.name)
        if len(copied) == 2:
            written(store, "meanwhile")

    monkeypatch.setattr(shutil, "copyfile", copying)
    assert count(read_only) == 2
    assert copied == ["state.db", "state.db-wal"] * 2


@pytest.mark.parametrize("is_copied", [True, False])
def test_a_copy_is_taken_though_the_last_who_writes_closes_the_file(
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
