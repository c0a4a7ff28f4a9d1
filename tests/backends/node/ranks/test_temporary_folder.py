"""Short folders for temporary files: private, removed by their makers or the next sweep."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from batchai_magics.backends.node.ranks.temporary_folder import TemporaryFolder, sweep

LONG = "/" + "long" * 10


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


def test_a_short_folder_is_used_as_it_is(root):
    temporary = TemporaryFolder(str(root))
    assert temporary.path("/dev/shm") == "/dev/shm"
    temporary.remove()
    assert not [*root.iterdir()]


@pytest.mark.parametrize("given", [LONG, "/missing", ""])
def test_instead_of_one_that_is_long_or_missing_there_is_a_private_one(root, given):
    temporary = TemporaryFolder(str(root))
    folder = Path(temporary.path(given))
    assert folder.parent.parent == root
    assert (folder.stat().st_mode & 0o777, folder.stat().st_uid) == (0o700, os.getuid())
    assert temporary.path(given) == str(folder) != temporary.path(given, name="1")
    temporary.remove()
    assert not [*root.iterdir()]


def test_without_any_place_for_it_the_given_folder_is_used(root):
    root.rmdir()
    assert TemporaryFolder(str(root)).path(LONG) == LONG
    root.mkdir()


def test_removal_follows_no_link(root):
    kept = root / "kept"
    kept.mkdir()
    (kept / "file").touch()
    temporary = TemporaryFolder(str(root))
    folder = Path(temporary.path(""))
    (folder / "link").symlink_to(kept)
    folder.with_name("1").symlink_to(kept)
    temporary.remove()
    assert [*root.iterdir()] == [kept]
    assert (kept / "file").exists()


def test_a_folder_that_others_can_read_now_is_left_alone(root):
    temporary = TemporaryFolder(str(root))
    folder = Path(temporary.path(""))
    folder.parent.chmod(0o755)
    temporary.remove()
    sweep(str(root))
    assert folder.exists()


def test_a_sweep_leaves_folders_that_are_in_use_or_somebody_elses(root):
    other = root / "b-other"
    other.mkdir(mode=0o700)
    temporary = TemporaryFolder(str(root))
    folder = Path(temporary.path(""))
    sweep(str(root))
    assert folder.is_dir()
    assert other.is_dir()
    temporary.remove()


@pytest.mark.slow
def test_a_sweep_removes_what_a_killed_program_has_left(root):
    code = (
        "import os, signal, sys\n"
        "from batchai_magics.backends.node.ranks.temporary_folder import TemporaryFolder\n"
        "print(TemporaryFolder(sys.argv[1]).path(''), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    argv = [sys.executable, "-c", code, str(root)]
    killed = subprocess.run(argv, capture_output=True, text=True, check=False)
    folder = Path(killed.stdout.strip())
    (folder / "file").touch()
    sweep(str(root))
    assert not [*root.iterdir()]
