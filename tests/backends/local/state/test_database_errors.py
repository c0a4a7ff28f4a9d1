"""Each complaint about the database: its whole text, its code, the way on, and when a wait is told of."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from batchai_magics.backends.local.state import database_errors
from batchai_magics.backends.local.state.database_errors import LockHolder
from batchai_magics.errors import StorageError

PATH = Path("/home/state.db")
RUNNING, STOPPED = LockHolder(7, "python3", is_stopped=False), LockHolder(8, "batchai", is_stopped=True)
NOTHING_WRITTEN = "Then try again: nothing was written."
WAIT_OR_END = "Wait for it, or end it with `kill -KILL 7`: its unfinished changes are rolled back."
LET_GO_ON_OR_END = (
    "Resume it with `kill -CONT 8`, or end it with `kill -KILL 8`: its unfinished changes are rolled back."
)
MOVE_AWAY = (
    "Move it away, with state.db-wal and state.db-shm, and try again: it is then rebuilt from /home/jobs."
)


def raised(error: sqlite3.Error) -> BaseException:
    """What becomes of an error of SQLite."""
    with pytest.raises(Exception) as caught, database_errors.translate_errors(PATH):  # noqa: PT011  -- each test says which
        raise error
    return caught.value


def told(error: BaseException) -> tuple[str, str, str]:
    assert isinstance(error, StorageError)
    return error.message, error.code, error.hint


@pytest.mark.parametrize(
    ("holder", "text", "hint"),
    [
        (
            None,
            "another process has locked it",
            "`fuser -v /home/state.db` lists its users.",
        ),
        (RUNNING, "process 7 (python3) has locked it", WAIT_OR_END),
        (STOPPED, "process 8 (batchai) has locked it and is stopped", LET_GO_ON_OR_END),
    ],
)
def test_a_lock_names_who_has_it_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, holder: LockHolder | None, text: str, hint: str
) -> None:
    expected = (f"{PATH} cannot be changed: {text}", "StoreUnavailable", f"{hint} {NOTHING_WRITTEN}")
    assert told(database_errors.locked(PATH, holder)) == expected
    monkeypatch.setattr(database_errors, "writer_of", {PATH: holder}.__getitem__)
    assert told(raised(sqlite3.OperationalError("database is locked"))) == expected


@pytest.mark.parametrize("words", ["disk I/O error", "database disk image is malformed"])
def test_an_operation_that_meets_damage_says_what_to_move_away(
    monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setattr(database_errors, "has_no_room", lambda folder: False)
    error = raised(sqlite3.OperationalError(words))
    assert told(error) == (f"{PATH} is damaged: {words}", "StoreDamaged", MOVE_AWAY)


def test_a_file_that_is_no_database_says_what_to_move_away() -> None:
    error = raised(sqlite3.DatabaseError("file is not a database"))
    assert told(error) == (f"{PATH} is damaged: file is not a database", "StoreDamaged", MOVE_AWAY)


@pytest.mark.parametrize("words", ["database or disk is full", "disk I/O error"])
def test_a_full_disk_says_that_what_was_saved_is_intact(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.setattr(database_errors, "has_no_room", {PATH.parent: True}.__getitem__)
    hint = "Free some space and try again; what was saved before is intact."
    error = raised(sqlite3.OperationalError(words))
    assert told(error) == (f"{PATH} cannot be used: {words}", "DiskFull", hint)


def test_any_other_complaint_is_told_as_it_is_even_where_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(database_errors, "has_no_room", lambda folder: True)
    error = raised(sqlite3.OperationalError("unable to open database file"))
    assert told(error) == (f"{PATH} cannot be used: unable to open database file", "StoreUnavailable", "")


@pytest.mark.parametrize("kind", [sqlite3.OperationalError, sqlite3.DatabaseError])
def test_what_sqlite_said_is_the_cause_of_what_we_say(kind: type[sqlite3.Error]) -> None:
    error = kind("unable to open database file")
    assert raised(error).__cause__ is error


@pytest.mark.parametrize("kind", [sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError])
def test_a_mistake_of_ours_stays_what_it_is(kind: type[sqlite3.Error]) -> None:
    error = kind("UNIQUE constraint failed")
    assert raised(error) is error


def test_only_the_words_of_a_lock_are_a_lock() -> None:
    assert database_errors.is_locked_error(sqlite3.OperationalError("database is locked"))
    assert not database_errors.is_locked_error(sqlite3.OperationalError("database table is locked"))


@pytest.mark.parametrize(("blocks", "has_no_room"), [(0, True), (255, True), (256, False), (10**9, False)])
def test_room_is_what_others_than_root_may_use(
    monkeypatch: pytest.MonkeyPatch, blocks: int, has_no_room: bool
) -> None:
    room = SimpleNamespace(f_bavail=blocks, f_frsize=4096)
    monkeypatch.setattr(database_errors, "os", SimpleNamespace(statvfs={PATH.parent: room}.__getitem__))
    assert database_errors.has_no_room(PATH.parent) is has_no_room


def test_a_folder_that_does_not_tell_its_room_has_some(tmp_path: Path) -> None:
    assert database_errors.has_no_room(tmp_path / "missing") is False


class Clock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(database_errors, "time", clock)
    return clock


def warned(do: Callable[[], None]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        do()
    return [warning for warning in caught if warning.category is RuntimeWarning]


def test_a_wait_is_over_at_its_deadline(clock: Clock) -> None:
    wait = database_errors.LockWait(PATH, 30.0, lambda path: None)
    assert not wait.is_over
    clock.now_s = 129.5
    assert not wait.is_over
    clock.now_s = 130.0
    assert wait.is_over


def test_who_is_stopped_is_told_once_after_two_seconds(clock: Clock) -> None:
    wait = database_errors.LockWait(PATH, 30.0, {PATH: STOPPED}.get)
    clock.now_s = 101.9
    assert not warned(wait.warn_if_stopped)
    clock.now_s = 102.0
    (warning,) = warned(wait.warn_if_stopped)
    assert str(warning.message) == (
        "/home/state.db cannot be changed yet: process 8 (batchai) has locked it and is stopped; waiting for"
        f" up to 28 s more. {LET_GO_ON_OR_END}"
    )
    clock.now_s = 129.0
    assert not warned(wait.warn_if_stopped)


def test_who_only_takes_long_is_not_told_until_it_is_stopped(clock: Clock) -> None:
    holders: list[LockHolder | None] = [None, RUNNING, STOPPED]
    wait = database_errors.LockWait(PATH, 30.0, lambda path: holders.pop(0))
    clock.now_s = 110.0
    assert [len(warned(wait.warn_if_stopped)) for _ in range(3)] == [0, 0, 1]


def test_who_has_a_lock_is_not_sought_before_it_is_told(clock: Clock) -> None:
    sought: list[Path] = []
    wait = database_errors.LockWait(PATH, 30.0, lambda path: sought.append(path))
    clock.now_s = 101.0
    wait.warn_if_stopped()
    assert not sought
    clock.now_s = 103.0
    wait.warn_if_stopped()
    assert sought == [PATH]
