"""The home is its owner's alone, whatever the umask; what a job itself writes has its owner's umask."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.local.state.sqlite_repository import SqliteRepository
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.service.repository import Record
from batchai_magics.errors import StorageError
from batchai_magics.models.resource_ids import ResourceId
from tests.backends.local.still import Still
from tests.contract.place import MOUNTED
from tests.world import World, until

WORKSPACE = ResourceId.parse("/subscriptions/s/resourceGroups/g/providers/Microsoft.BatchAI/workspaces/w")
OPEN_UMASK = 0o000
OWN = "$AZ_BATCHAI_MOUNT_ROOT/autoafs/own"


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    before = os.umask(OPEN_UMASK)
    yield
    os.umask(before)


def open_to_others(home: Path) -> list[str]:
    """What below the home others may read, write or enter."""
    paths = [home, *(path for path in home.rglob("*") if not path.is_symlink())]
    return [f"{stat.filemode(path.stat().st_mode)} {path}" for path in paths if path.stat().st_mode & 0o077]


@pytest.mark.slow
def test_nothing_below_the_home_is_open_to_others_but_what_a_job_wrote(world: World) -> None:
    world.backend.storage.upload("batchaishare", {"folder/file": b"x"})
    world.backend.storage.make("another")
    size = world.backend.storage.begin("another", "deep/file", 1)
    world.backend.storage.write("another", "deep/file", size, b"x")
    world.backend.accounts.create("account", "group", "here")
    ranks = {"commandLine": f"touch {OWN}; sleep 1000", "processCount": 2}
    fields = {"customToolkitSettings": None, "customMpiSettings": ranks}
    world.start("", nodeCount=2, jobPreparation={"commandLine": "true"}, **fields)
    own = world.home / "shares" / "local" / "batchaishare" / "own"
    until(own.exists)
    assert stat.S_IMODE(own.stat().st_mode) == 0o666
    world.backend.terminate(world.job_id("j"))
    until(lambda: world.backend.show(world.job_id("j")).state.is_final)
    own.unlink()
    assert not open_to_others(world.home)


@pytest.mark.slow
def test_what_a_setup_task_needs_is_closed_to_others(still: Still) -> None:
    task = {"commandLine": "true", "stdOutErrPathPrefix": MOUNTED}
    still.cluster(nodeSetup={"setupTask": task})
    still.prepare()
    assert not open_to_others(still.layout.home)


@pytest.mark.parametrize("inside", [[], ["state.db"], ["jobs", "mine.txt"]])
def test_a_home_that_is_open_to_others_is_closed(tmp_path: Path, inside: list[str]) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    for name in inside:
        (home / name).touch()
    with Store(home / "state.db").read():
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert stat.S_IMODE((home / "state.db").stat().st_mode) == 0o600


@pytest.mark.parametrize("rows", ["groups", "accounts"])
def test_a_home_that_begins_with_a_group_or_an_account_is_closed(tmp_path: Path, rows: str) -> None:
    tmp_path.chmod(0o755)
    records = SqliteRepository(Store(tmp_path / "state.db"))
    getattr(records, rows).insert("own", {"name": "own"})
    assert not open_to_others(tmp_path)
    records.insert(WORKSPACE, Record(str(WORKSPACE), "guid", "{}", "print", 0.0))


@pytest.mark.parametrize("rows", ["groups", "accounts"])
def test_a_folder_of_other_things_gets_no_group_or_account(tmp_path: Path, rows: str) -> None:
    (tmp_path / "thesis.tex").touch()
    tmp_path.chmod(0o755)
    with pytest.raises(StorageError, match="open to other users"):
        getattr(SqliteRepository(Store(tmp_path / "state.db")), rows).insert("own", {"name": "own"})
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_read_only_home_gets_no_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = SqliteRepository(Store(tmp_path / "state.db")).groups
    groups.insert("own", {"name": "own"})
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)  # root may write anywhere
    with pytest.raises(StorageError, match="is read-only") as caught:
        groups.insert("other", {"name": "other"})
    assert (caught.value.code, groups.all()) == ("StoreReadOnly", [{"name": "own"}])


@pytest.mark.parametrize(("mode", "inside"), [(0o755, "thesis.tex"), (0o1777, "state.db"), (0o770, "x")])
def test_a_folder_of_other_things_is_not_closed_but_refused(tmp_path: Path, mode: int, inside: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / inside).touch()
    home.chmod(mode)
    with pytest.raises(StorageError, match="open to other users") as caught:
        private_files.make_home(home)
    assert caught.value.code == "HomeNotPrivate"
    assert "BATCHAI_HOME" in caught.value.hint
    assert f"chmod 700 {home}" in caught.value.hint
    assert stat.S_IMODE(home.stat().st_mode) == mode


@pytest.mark.parametrize("mode", [0o701, 0o702, 0o704, 0o710, 0o720, 0o740])
def test_any_right_of_others_is_taken_from_a_home(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    private_files.make_home(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["state.db", "jobs", "clusters", "shares", "containers", "fileservers"])
def test_each_entry_of_a_home_tells_that_it_is_one(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    (tmp_path / "thesis.tex").touch()
    tmp_path.chmod(0o755)
    private_files.make_home(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_a_read_only_home_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(os, "access", lambda _path, mode: asked.append(mode))  # root may write anywhere
    (tmp_path / "thesis.tex").touch()
    tmp_path.chmod(0o755)
    private_files.make_home(tmp_path)
    assert asked == [os.W_OK]
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_home_that_cannot_be_closed_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path, _mode: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    tmp_path.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", refuse)  # as some network file systems do
    with pytest.raises(StorageError, match="cannot be closed: Operation not permitted") as caught:
        private_files.make_home(tmp_path, setting="slurm.home")
    assert (caught.value.code, "slurm.home" in caught.value.hint) == ("HomeNotPrivate", True)


def test_a_home_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"file/home cannot be used: Not a directory"):
        private_files.make_home(tmp_path / "file" / "home")


def test_a_closed_folder_of_other_things_may_be_the_home(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    tmp_path.chmod(0o700)
    private_files.make_home(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_a_home_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    uid = os.geteuid() - 1
    with pytest.raises(StorageError, match=rf"belongs to another user \(uid {uid}\)") as caught:
        private_files.make_home(tmp_path)
    assert caught.value.code == "HomeNotOwned"
    assert "BATCHAI_HOME" in caught.value.hint


def test_a_closed_home_of_another_user_is_refused_though_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(StorageError, match="belongs to another user") as caught:
        private_files.make_home(tmp_path, setting="slurm.home")
    assert (caught.value.code, "slurm.home" in caught.value.hint) == ("HomeNotOwned", True)


def test_a_home_in_a_closed_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: Path, mode: int) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(StorageError, match="cannot be used: Permission denied") as caught:
        private_files.make_home(tmp_path / "home")
    assert caught.value.code == "HomeNotOwned"


def test_a_file_is_made_closed_and_one_that_is_there_is_closed_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "file"
    private_files.make_file(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text("kept")
    file.chmod(0o644)
    private_files.make_file(file)
    assert (stat.S_IMODE(file.stat().st_mode), file.read_text()) == (0o600, "kept")


@pytest.mark.slow
def test_a_file_that_is_there_keeps_its_locks(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    private_files.make_file(file)
    take = f"import fcntl; fcntl.lockf(open({str(file)!r}, 'a'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    with file.open("a") as locked:
        fcntl.lockf(locked, fcntl.LOCK_EX)
        private_files.make_file(file)  # closing it would release the lock
        assert subprocess.run([sys.executable, "-IS", "-c", take], stderr=subprocess.DEVNULL).returncode
    assert not subprocess.run([sys.executable, "-IS", "-c", take]).returncode
