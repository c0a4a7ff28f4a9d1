"""The home is its owner's alone, whatever the umask; what a job itself writes has its owner's umask."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.local.state.sqlite_repository import SqliteRepository
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.service.repository import Record
from batchai_magics.errors import StorageError
from batchai_magics.models.resource_ids import ResourceId
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
def test_only_files_that_jobs_wrote_are_accessible_to_others_below_the_home(world: World) -> None:
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


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def refused(home: Path, **more: str) -> StorageError:
    """What is said of a folder that cannot be a home."""
    with pytest.raises(StorageError) as caught:
        private_files.make_home(home, **more)
    return caught.value


@pytest.mark.parametrize("rows", ["groups", "accounts"])
def test_a_home_that_begins_with_a_group_or_an_account_is_closed(tmp_path: Path, rows: str) -> None:
    tmp_path.chmod(0o755)
    records = SqliteRepository(Store(tmp_path / "state.db"))
    getattr(records, rows).insert("own", {"name": "own"})
    assert not open_to_others(tmp_path)
    records.insert(Record(str(WORKSPACE), "guid", "{}", "print", 0.0))


@pytest.mark.parametrize(("mode", "inside"), [(0o755, "thesis.tex"), (0o1777, "state.db"), (0o770, "x")])
def test_a_folder_of_other_things_is_not_closed_but_refused(tmp_path: Path, mode: int, inside: str) -> None:
    (tmp_path / inside).touch()
    tmp_path.chmod(mode)
    error = refused(tmp_path)
    assert (error.code, "open to other users" in error.message) == ("HomeNotPrivate", True)
    assert "BATCHAI_HOME" in error.hint
    assert f"chmod 700 {tmp_path}" in error.hint
    assert mode_of(tmp_path) == mode


@pytest.mark.parametrize(
    ("mode", "entry"),
    [
        (0o701, "state.db"),
        (0o702, "jobs"),
        (0o704, "clusters"),
        (0o710, "shares"),
        (0o720, "containers"),
        (0o740, "fileservers"),
        (0o755, ""),
    ],
)
def test_empty_folder_or_existing_home_is_restricted_to_its_owner(
    tmp_path: Path, mode: int, entry: str
) -> None:
    for name in (entry, "thesis.tex") if entry else ():
        (tmp_path / name).touch()
    tmp_path.chmod(mode)
    private_files.make_home(tmp_path)
    assert mode_of(tmp_path) == 0o700


def test_a_database_in_a_home_that_was_open_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "state.db").touch()
    with Store(tmp_path / "state.db").read():
        assert (mode_of(tmp_path), mode_of(tmp_path / "state.db")) == (0o700, 0o600)


def test_private_folder_with_other_files_may_be_the_home(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    tmp_path.chmod(0o700)
    private_files.make_home(tmp_path)
    assert mode_of(tmp_path) == 0o700


def deny(*_: object, **__: object) -> NoReturn:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may write, not even root, who may write anywhere."""
    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.W_OK)


@pytest.mark.usefixtures("read_only")
def test_read_only_home_keeps_its_mode_and_refuses_new_groups(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    (home / "thesis.tex").touch()
    private_files.make_home(home)
    assert mode_of(home) == 0o755
    groups = SqliteRepository(Store(home / "state.db")).groups
    with pytest.raises(StorageError, match="is read-only") as caught:
        groups.insert("other", {"name": "other"})
    assert caught.value.code == "StoreReadOnly"


@pytest.mark.parametrize(
    ("denied", "what", "code"),
    [
        ("chmod", "cannot be closed: Permission denied", "HomeNotPrivate"),  # as some network file systems do
        ("mkdir", "cannot be used: Permission denied", "HomeNotOwned"),
    ],
)
def test_error_says_why_a_home_cannot_be_restricted_or_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, denied: str, what: str, code: str
) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setattr(Path, denied, deny)
    error = refused(tmp_path if denied == "chmod" else tmp_path / "home", setting="slurm.home")
    assert (error.code, what in error.message, "slurm.home" in error.hint) == (code, True, True)


@pytest.mark.parametrize("is_closed", [False, True])
def test_inaccessible_home_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, is_closed: bool
) -> None:
    uid = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    if is_closed:
        request.getfixturevalue("read_only")
        monkeypatch.setattr(Path, "iterdir", deny)
    error = refused(tmp_path, setting="slurm.home")
    assert (error.code, "slurm.home" in error.hint) == ("HomeNotOwned", True)
    assert f"belongs to another user (uid {uid})" in error.message


def test_new_file_is_private_and_existing_file_is_made_private_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "file"
    private_files.make_file(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text("kept")
    file.chmod(0o644)
    private_files.make_file(file)
    assert (stat.S_IMODE(file.stat().st_mode), file.read_text()) == (0o600, "kept")
