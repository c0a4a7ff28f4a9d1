"""The database: one writer at a time, all or nothing, room kept for bad times, nothing shared by a fork."""

from __future__ import annotations

import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from batchai_magics.backends.folders import private
from batchai_magics.backends.local.state import complaints, database_file
from batchai_magics.backends.local.state import store as store_module
from batchai_magics.backends.local.state.reserve import RESERVE_BYTES, SLICE_BYTES
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.service import private_files
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
    monkeypatch.setattr(store_module, "BUSY_S", 0.0)
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


def test_an_interrupt_that_is_told_as_a_transaction_begins_leaves_none_open(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = store._begin

    def interrupted(connection: sqlite3.Connection) -> None:
        begin(connection)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store, "_begin", interrupted)
        with pytest.raises(KeyboardInterrupt), store.write():
            pytest.fail("it was interrupted before")
    monkeypatch.setattr(store_module, "BUSY_S", 0.0)
    for each, name in ((Store(path), "another"), (store, "the same")):
        with each.write() as db:
            db.execute(GROUP, (name,))
    assert count(store) == 2


def test_what_an_interrupt_left_half_read_keeps_nobody_from_writing(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook keeps the traceback, which has the rows that nobody has read yet."""
    monkeypatch.setattr(store_module, "BUSY_S", 0.0)
    with store.write() as db:
        db.executemany(GROUP, [("a",), ("b",)])
    left: list[sqlite3.Cursor] = []

    def interrupted() -> None:
        with store.read() as db:
            left.append(db.execute("SELECT key FROM resource_group"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    for each, name in ((Store(path), "another"), (store, "the same")):
        with each.write() as db:
            db.execute(GROUP, (name,))
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
    another = subprocess.run([sys.executable, "-c", LOCKS_OF_ANOTHER, str(path)], capture_output=True)
    assert b"BlockingIOError" in another.stderr


def test_an_interrupt_of_a_look_within_a_transaction_undoes_the_transaction(store: Store) -> None:
    def interrupted() -> None:
        with store.write() as db:
            db.execute(GROUP, ("a",))
            with store.read():
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert count(store) == 0


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


def test_room_is_set_aside_once_and_given_away_slice_by_slice(store: Store, tmp_path: Path) -> None:
    reserve = tmp_path / "home" / "reserve"
    store.make_reserve()
    assert reserve.stat().st_size == RESERVE_BYTES
    before = reserve.stat().st_mtime_ns
    store.make_reserve()
    assert reserve.stat().st_mtime_ns == before
    given = [reserve.stat().st_size for _ in range(RESERVE_BYTES // SLICE_BYTES) if store.reserve.give()]
    assert given == list(range(RESERVE_BYTES - SLICE_BYTES, -1, -SLICE_BYTES))
    assert not store.reserve.give()
    store.reserve.refill()
    assert reserve.stat().st_size == RESERVE_BYTES


def test_a_reserve_that_was_never_made_or_is_dropped_is_not_filled(store: Store, tmp_path: Path) -> None:
    store.make_reserve()
    store.reserve.drop()
    store.reserve.refill()
    assert not (tmp_path / "home" / "reserve").exists()
    assert (store.reserve.size_bytes, store.reserve.give()) == (0, False)


def test_a_reserve_that_was_cut_short_is_made_whole(store: Store, tmp_path: Path) -> None:
    store.make_reserve()
    (tmp_path / "home" / "reserve").write_bytes(b"x")
    store.make_reserve()
    assert (tmp_path / "home" / "reserve").stat().st_size == RESERVE_BYTES


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("database or disk is full", "DiskFull"),
        ("disk I/O error", "StoreDamaged"),
        ("unable to open database file", "StoreUnavailable"),
    ],
)
def test_what_sqlite_complains_of_is_said_in_our_words(store: Store, words: str, code: str) -> None:
    with pytest.raises(StorageError, match=r"state\.db") as caught, store.read():
        raise sqlite3.OperationalError(words)
    assert caught.value.code == code
    assert bool(caught.value.hint) is (code != "StoreUnavailable")


# -- the file under it


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "state.db"


def refused(store: Store) -> StorageError:
    """What the store says when it is asked."""
    with pytest.raises(StorageError) as caught, store.read() as db:
        db.execute(COUNT).fetchone()
    return caught.value


def written(store: Store, name: str = "g") -> None:
    with store.write() as db:
        db.execute(GROUP, (name,))


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


def test_a_journal_of_garbage_is_no_full_disk(store: Store, path: Path) -> None:
    written(store)
    with path.with_name("state.db-wal").open("r+b") as file:
        file.truncate(1000)
    error = refused(Store(path))
    assert (error.code, "Move it away" in error.hint) == ("StoreDamaged", True)


def test_an_error_of_writing_on_a_disk_without_room_is_a_full_disk(store: Store, monkeypatch) -> None:
    monkeypatch.setattr(complaints, "_has_no_room", lambda folder: True)
    with pytest.raises(StorageError) as caught, store.read():
        raise sqlite3.OperationalError("disk I/O error")
    assert caught.value.code == "DiskFull"


def test_a_mistake_of_ours_is_not_called_a_damaged_file(store: Store) -> None:
    written(store)
    with pytest.raises(sqlite3.IntegrityError):
        written(store)


@pytest.fixture
def read_only(store: Store, path: Path, monkeypatch) -> Store:
    """A store whose folder nobody may write to, with a change that is in the journal alone."""
    written(store)
    monkeypatch.setattr(private, "is_read_only", lambda folder: folder == path.parent)
    return Store(path)


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
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "copies"))
    (tmp_path / "copies").mkdir()
    count(read_only)
    (copy,) = (tmp_path / "copies").iterdir()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o700
    read_only.close()
    assert not list((tmp_path / "copies").iterdir())


def test_what_ends_something_has_the_reserve_of_a_full_disk_until_it_is_used_up(store: Store) -> None:
    store.make_reserve()
    tried: list[int] = []

    def change(db: sqlite3.Connection) -> str:
        tried.append(store.reserve.size_bytes)
        if tried[-1] > RESERVE_BYTES - 3 * SLICE_BYTES:
            raise sqlite3.OperationalError("database or disk is full")
        db.execute(GROUP, ("g",))
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
    assert log.st_blocks * 512 >= log.st_size == database_file.LOG_BYTES
    for number in range(30):  # SQLite has begun its log anew
        written(store, f"{number:0100000}")
    assert path.with_name("state.db-wal").stat().st_size == database_file.LOG_BYTES
    assert count(Store(path)) == 31


def test_a_disk_with_room_keeps_the_reserve(store: Store, path: Path) -> None:
    store.make_reserve()
    assert store.insist(lambda db: db.execute("SELECT 7").fetchone()[0]) == 7
    assert path.with_name("reserve").exists()


def test_what_has_not_used_the_reserve_does_not_fill_it(store: Store) -> None:
    store.make_reserve()
    assert store.reserve.give()
    store.insist(lambda db: db.execute(COUNT).fetchone())
    assert store.reserve.size_bytes == RESERVE_BYTES - SLICE_BYTES


def test_nothing_else_takes_the_reserve(store: Store, path: Path) -> None:
    store.make_reserve()

    def change(db: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("database is locked")

    with pytest.raises(StorageError, match="locked"):
        store.insist(change)
    assert path.with_name("reserve").exists()


def test_each_complaint_names_the_file_its_code_and_the_way_on() -> None:
    path = Path("/home/state.db")
    full = OSError(28, "No space left on device")
    told = [
        complaints.missing(path),
        complaints.replaced(path),
        complaints.read_only(path.parent),
        complaints.no_room(path.parent, full),
        complaints.unusable(path, "locked"),
    ]
    assert [(error.code, error.message) for error in told] == [
        ("StoreMissing", "/home/state.db was deleted while it was in use"),
        ("StoreReplaced", "/home/state.db was replaced while it was in use"),
        ("StoreReadOnly", "/home is read-only"),
        ("DiskFull", "/home cannot be used: No space left on device"),
        ("StoreUnavailable", "/home/state.db cannot be used: locked"),
    ]
    assert [error.hint for error in told] == [
        "What runs goes on. What you create next begins a new one, with all that is found of jobs in"
        " /home/jobs.",
        "Try again to go on with the file that is there now.",
        "What is there can be listed and read. Set BATCHAI_HOME to a folder that you can write.",
        "Free some space and try again; nothing was written.",
        "",
    ]


@pytest.mark.parametrize(("blocks", "code"), [(255, "DiskFull"), (256, "StoreDamaged")])
def test_a_disk_with_less_than_a_megabyte_has_no_room(
    store: Store, monkeypatch, blocks: int, code: str
) -> None:
    room = SimpleNamespace(f_bavail=blocks, f_frsize=4096)
    count(store)
    monkeypatch.setattr(complaints.os, "statvfs", lambda folder: room)
    with pytest.raises(StorageError) as caught, store.read():
        raise sqlite3.OperationalError("disk I/O error")
    assert caught.value.code == code


def test_a_reserve_that_cannot_be_written_is_said_before_anything_is(store: Store, path: Path) -> None:
    private_files.make_folder(path.with_name("reserve"))
    with pytest.raises(StorageError, match=f"{path.parent} cannot be used: Is a directory") as caught:
        Store(path).make_reserve()
    assert (caught.value.code, path.exists()) == ("DiskFull", False)


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
