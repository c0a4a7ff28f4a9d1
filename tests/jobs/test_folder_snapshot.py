"""The files of a script's folder that go along with it."""

import os
import subprocess
from pathlib import Path

import pytest

from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError
from batchai_magics.jobs import folder_snapshot
from batchai_magics.jobs.folder_snapshot import read_script, snapshot

pytestmark = pytest.mark.slow  # they start git


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "project"
    for name in ("train.py", "pkg/__init__.py", "pkg/__pycache__/x.pyc", "data/big.bin", ".venv/lib.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def git(folder, *words):
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def test_files_keep_their_paths_and_caches_stay_behind(folder):
    assert snapshot(folder) == {
        "train.py": b"train.py",
        "pkg/__init__.py": b"pkg/__init__.py",
        "data/big.bin": b"data/big.bin",
    }


@pytest.mark.parametrize("has_git", [False, True])
def test_a_file_whose_name_is_not_utf8_goes_along(folder, has_git):
    (folder / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    if has_git:
        git(folder, "init", "-q")
    assert snapshot(folder)["caf\\xe9.txt"] == b"x"


def test_what_batchaiignore_matches_stays_behind(folder):
    (folder / ".batchaiignore").write_text("data/\n# a comment\n*.log\n")
    (folder / "a.log").touch()
    assert {*snapshot(folder)} == {".batchaiignore", "train.py", "pkg/__init__.py"}


@pytest.mark.parametrize("has_git", [False, True])
def test_a_virtual_environment_of_any_name_stays_behind(folder, has_git):
    (folder / "data" / "pyvenv.cfg").touch()
    if has_git:
        git(folder, "init", "-q")
    assert {*snapshot(folder)} == {"train.py", "pkg/__init__.py"}


def test_what_git_ignores_stays_behind_and_what_it_does_not_know_yet_goes_along(folder):
    git(folder, "init", "-q")
    (folder / ".gitignore").write_text("data/\n")
    git(folder, "add", "train.py", ".gitignore")
    assert {*snapshot(folder)} == {".gitignore", "train.py", "pkg/__init__.py"}


def test_a_folder_of_a_repository_is_alone_and_a_deleted_file_is_gone(folder):
    git(folder, "init", "-q")
    git(folder, "add", "train.py", "pkg/__init__.py")
    (folder / "pkg/__init__.py").unlink()
    (folder / "pkg/model.py").touch()
    assert {*snapshot(folder / "pkg")} == {"model.py"}


def test_a_link_that_leaves_the_folder_stays_behind(folder):
    (folder.parent / "secret").touch()
    (folder / "out").symlink_to(folder.parent / "secret")
    (folder / "in.py").symlink_to("train.py")
    files = snapshot(folder)
    assert "out" not in files
    assert files["in.py"] == b"train.py"


def test_a_folder_that_is_too_large_is_refused_with_its_largest_entries(folder):
    with (folder / "data" / "big.bin").open("wb") as file:
        os.truncate(file.fileno(), folder_snapshot.MAX_BYTES)
    with pytest.raises(UsageError, match=r"at most .* 50 MiB .* largest: data/ \(50\.0 MiB\)") as caught:
        snapshot(folder)
    assert ".batchaiignore" in caught.value.hint


def test_a_folder_with_too_many_files_is_refused(folder, monkeypatch):
    monkeypatch.setattr(folder_snapshot, "MAX_FILES", 2)
    with pytest.raises(UsageError, match="has 3 files"):
        snapshot(folder)


def test_the_home_of_a_backend_in_the_folder_stays_behind(folder):
    home = folder / "jobs"
    (home / "shares").mkdir(parents=True)
    (home / "state.db").write_text("x")
    settings = Settings(sections={"local": LocalSettings(home=home)})
    files = read_script(Path("train.py"), folder, settings).files
    assert "train.py" in files
    assert not [name for name in files if name.startswith("jobs/")]
