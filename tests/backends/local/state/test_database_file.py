"""The file of the store: how it is opened, who waits while another makes it, and what a copy leaves."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from batchai_magics.backends.local.state import database_errors, database_file
from batchai_magics.backends.local.state.database_errors import LockHolder
from batchai_magics.backends.local.state.database_file import DatabaseFile
from batchai_magics.backends.service import private_files
from batchai_magics.errors import StorageError

STOPPED = LockHolder(8, "batchai", is_stopped=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "state.db"


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where copies are made."""
    folder = tmp_path / "copies"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def is_read_only(path: Path, copies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a database, closed, where nobody may write."""
    DatabaseFile(path, may_make=True).close()
    monkeypatch.setattr(private_files, "is_read_only", lambda folder: folder == path.parent)


def setting(file: DatabaseFile, name: str) -> object:
    return file.connection.execute(f"PRAGMA {name}").fetchone()[0]


def test_who_reads_waits_half_a_minute_for_a_lock(path: Path) -> None:
    assert setting(DatabaseFile(path, may_make=True), "busy_timeout") == 30_000
    assert setting(DatabaseFile(path, may_make=False), "busy_timeout") == 30_000


def test_a_database_of_nothing_is_made_anew_with_another_number(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.touch()
    with path.open("rb") as held:  # its number is not given to another file
        assert DatabaseFile(path, may_make=True).is_there
        assert path.stat().st_ino != os.fstat(held.fileno()).st_ino


def test_a_file_of_another_process_is_not_closed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = DatabaseFile(path, may_make=True)
    monkeypatch.setattr(database_file, "os", SimpleNamespace(getpid=lambda: file.pid + 1))
    assert not file.is_of_this_process
    file.close()
    assert setting(file, "user_version")
    file.connection.close()


@pytest.mark.parametrize(
    "reason", [OSError(28, "No space left on device"), AttributeError("posix_fallocate")]
)
def test_a_log_without_room_of_its_own_is_no_reason_to_refuse(
    path: Path, monkeypatch: pytest.MonkeyPatch, reason: Exception
) -> None:
    def refuse(descriptor: int, offset: int, size: int) -> None:
        asked.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        raise reason

    asked: list[str] = []
    monkeypatch.setattr(os, "posix_fallocate", refuse)
    DatabaseFile(path, may_make=True).preallocate_wal()
    assert asked == ["state.db-wal"]


@pytest.mark.parametrize("reason", [PermissionError(13, "no access"), OSError("no access")])
def test_a_file_that_cannot_be_made_is_named_with_the_reason(
    path: Path, monkeypatch: pytest.MonkeyPatch, reason: OSError
) -> None:
    def refuse(path: Path) -> None:
        raise reason

    monkeypatch.setattr(private_files, "make_file", refuse)
    with pytest.raises(StorageError) as caught:
        DatabaseFile(path, may_make=True)
    assert caught.value.message == f"{path} cannot be used: no access"


# -- while another one makes it


@pytest.fixture
def maker(path: Path) -> Iterator[int]:
    """Somebody who is making a database in the folder."""
    path.parent.mkdir(mode=0o700)
    descriptor = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield descriptor
    os.close(descriptor)


@pytest.mark.usefixtures("maker")
@pytest.mark.parametrize("holder", [None, STOPPED])
def test_who_waited_long_enough_is_told_who_makes_it(
    path: Path, monkeypatch: pytest.MonkeyPatch, holder: LockHolder | None
) -> None:
    monkeypatch.setattr(database_file, "opener_in", {path.parent: holder}.__getitem__)
    with pytest.raises(StorageError) as caught:
        DatabaseFile(path, may_make=True, busy_s=0.0)
    expected = database_errors.locked(path.parent, holder)
    assert (caught.value.message, caught.value.hint) == (expected.message, expected.hint)
    assert caught.value.__suppress_context__
    assert not path.exists()


def test_who_waits_is_told_who_is_stopped_and_goes_on_when_it_lets_go(
    path: Path, monkeypatch: pytest.MonkeyPatch, maker: int
) -> None:
    now_s, pauses = [100.0], []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now_s[0] += database_errors.WARN_AFTER_S
        if len(pauses) == 3:
            fcntl.flock(maker, fcntl.LOCK_UN)

    monkeypatch.setattr(database_errors, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    monkeypatch.setattr(database_file, "time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(database_file, "opener_in", {path.parent: STOPPED}.__getitem__)
    with pytest.warns(RuntimeWarning) as told:
        file = DatabaseFile(path, may_make=True)
    (warning,) = (each for each in told if each.category is RuntimeWarning)
    assert f"{path.parent} cannot be changed yet: process 8" in str(warning.message)
    assert "up to 28 s more" in str(warning.message)
    assert (pauses, file.is_there) == ([database_file.PAUSE_S] * 3, True)


def test_who_made_it_lets_the_next_one_do_so(path: Path) -> None:
    DatabaseFile(path, may_make=True).close()
    descriptor = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


# -- a copy of what is read-only


@pytest.mark.usefixtures("is_read_only")
def test_a_copy_whose_folder_was_swept_away_is_closed_all_the_same(path: Path, copies: Path) -> None:
    file = DatabaseFile(path, may_make=True)
    shutil.rmtree(next(copies.iterdir()))
    file.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        file.connection.execute("SELECT 1")


@pytest.mark.usefixtures("is_read_only")
def test_a_copy_that_cannot_be_opened_leaves_no_folder(path: Path, copies: Path) -> None:
    path.write_bytes(b"garbage " * 1000)
    with pytest.raises(sqlite3.DatabaseError):
        DatabaseFile(path, may_make=True)
    assert not list(copies.iterdir())


@pytest.mark.usefixtures("is_read_only")
def test_a_copy_that_changes_all_the_time_is_taken_five_times(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copyfile, copied = shutil.copyfile, []

    def copying(source: Path, target: Path) -> None:
        copyfile(source, target)
        copied.append(source.name)
        os.utime(path, ns=(0, len(copied)))

    monkeypatch.setattr(shutil, "copyfile", copying)
    assert DatabaseFile(path, may_make=True).is_copy
    assert copied == ["state.db"] * 5
