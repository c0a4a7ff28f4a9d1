"""Folders that are made here and at the other end of ssh, for their owner alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.machines import agent_files
from batchai_magics.errors import StorageError
from tests.backends.local.namespace import scene, tell

IMPOSSIBLE = Path("/proc/nope/home")


def test_folder_is_made_with_its_parents(tmp_path):
    folder = tmp_path / "a" / "b" / "c"
    private_files.make_folder(folder)
    private_files.make_folder(folder)
    assert {path.stat().st_mode & 0o777 for path in (folder, *folder.parents[:2])} == {0o700}


def test_folder_that_cannot_be_created_is_an_error():
    with pytest.raises(OSError, match="nope"):
        private_files.make_folder(IMPOSSIBLE)
    with pytest.raises(OSError, match="nope"):
        agent_files.mkdir(str(IMPOSSIBLE), 0o700, parents=True)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_file_is_replaced_atomically_and_is_private(tmp_path):
    file = tmp_path / "new" / "note"
    for text in ("first", "é"):
        private_files.write(file, text)
        assert file.read_text(encoding="utf-8") == text
    (tmp_path / "new" / "note.part").write_text("left by one that was killed")
    private_files.write(file, "third")
    assert (file.read_text(), [path.name for path in file.parent.iterdir()]) == ("third", ["note"])
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)


def test_concurrent_creation_of_a_file_succeeds_once(tmp_path):
    file = tmp_path / "new" / "note"
    assert private_files.write_new(file, "é") is True
    assert private_files.write_new(file, "second") is False
    assert (file.read_text(encoding="utf-8"), mode(file), mode(file.parent)) == ("é", 0o600, 0o700)
    assert [path.name for path in file.parent.iterdir()] == ["note"]


def test_file_is_not_created_if_the_path_that_it_needs_is_missing(tmp_path):
    file, needed = tmp_path / "note", tmp_path / "needed"
    with pytest.raises(FileNotFoundError):
        private_files.write_new(file, "text", needs=needed)
    assert not file.exists()
    needed.touch()
    assert private_files.write_new(file, "text", needs=needed)


def test_a_link_is_made_once_and_stays(tmp_path):
    link = tmp_path / "new" / "link"
    for target in ("first", "second"):
        private_files.make_link(link, tmp_path / target)
    assert link.readlink() == tmp_path / "first"
    assert mode(link.parent) == 0o700


def test_text_is_appended_to_a_private_file(tmp_path):
    file = tmp_path / "new" / "log"
    for text in ("é\n", "two\n"):
        private_files.append(file, text)
    assert (file.read_text(encoding="utf-8"), mode(file)) == ("é\ntwo\n", 0o600)


def test_error_about_an_uncreatable_home_names_its_setting():
    with pytest.raises(StorageError, match="cannot be used") as caught:
        private_files.make_home(IMPOSSIBLE)
    assert "BATCHAI_HOME" in caught.value.hint


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Path]:
    """A folder, which pytest itself could not remove once it is deep."""
    folder = tmp_path / "job"
    folder.mkdir()
    yield folder
    subprocess.run(["rm", "-rf", folder], check=True)


def deepen(folder: Path, depth: int, *, inmost: str = "") -> None:
    """Makes folders inside each other, and runs statements in the inmost one."""
    deep = f"import os\nfor _ in range({depth}):\n    os.mkdir('d')\n    os.chdir('d')\n{inmost}"
    subprocess.run([sys.executable, "-c", deep], cwd=folder, check=True)


def remove_around_a_mount(job: Path) -> None:
    """Removes a folder, one of whose innermost files cannot be deleted, and tells which are left."""
    inmost = find(job, "-name", "7", "-printf", "%h")
    subprocess.run(["mount", "--bind", "7", "7"], cwd=inmost, check=True)
    private_files.remove_folder(job)
    tell(find(job, "-type", "f", "-printf", "%f"))


def find(folder: Path, *options: str) -> str:
    """What the program tells, which goes as deep as need be."""
    return subprocess.run(["find", folder, *options], check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 1500])
def test_a_file_that_cannot_be_deleted_keeps_its_folders_and_nothing_else(job, depth):
    deepen(job, depth)
    for number in range(20):
        (job / Path(*["d"] * depth) / f"{number}").touch()
    assert scene(remove_around_a_mount, job) == ["7"]


def test_folder_is_deleted_with_its_contents_but_not_the_targets_of_links(tmp_path):
    (tmp_path / "outside" / "inner").mkdir(parents=True, mode=0o750)
    (tmp_path / "outside" / "inner").chmod(0o750)
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    for link in (tmp_path / "link", tmp_path / "folder" / "inner" / "link"):
        link.symlink_to(tmp_path / "outside")
    for _ in range(2):
        private_files.remove_folder(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    private_files.remove_folder(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert mode(tmp_path / "outside" / "inner") == 0o750


def test_a_folder_that_a_link_replaces_while_all_is_deleted_is_not_followed(tmp_path, monkeypatch):
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    for place in (outside, folder / "inner"):
        place.mkdir(parents=True)
    (outside / "kept").touch()
    read = private_files._entries

    def entries(read_folder: Path) -> list[os.DirEntry[str]]:
        found = read(read_folder)
        if read_folder == folder:  # now a process of the job does this
            (folder / "inner").rename(tmp_path / "moved")
            (folder / "inner").symlink_to(outside)
        return found

    monkeypatch.setattr(private_files, "_entries", entries)
    private_files.remove_unmounted(folder)
    assert (outside / "kept").exists()


# folders that a script has closed for its owner too


# Root passes any mode, unless it gives up the right to.
_WITHOUT = "-dac_override,-dac_read_search"
_AS_ANYBODY = ["setpriv", f"--bounding-set={_WITHOUT}", f"--inh-caps={_WITHOUT}"]
REMOVALS = {
    "local": "from batchai_magics.backends.local.unmanaged_mounts import remove",
    "slurm": "from batchai_magics.backends.folders.private_files import remove_folder as remove",
}


def remove_as_anybody(backend: str, folder: Path) -> None:
    """Removes the folder without the rights of root."""
    program = f"import pathlib, sys; {REMOVALS[backend]}; remove(pathlib.Path(sys.argv[1]))"
    who = _AS_ANYBODY if os.geteuid() == 0 else []
    subprocess.run([*who, sys.executable, "-c", program, str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("backend", REMOVALS)
def test_a_folder_that_is_closed_or_read_only_is_removed(tmp_path, backend):
    root, beside = tmp_path / "run", tmp_path / "beside"
    for folder, mode in ((root / "read-only", 0o500), (root / "closed", 0), (beside, 0o500)):
        (folder / "inside").mkdir(parents=True)
        (folder / "inside" / "file").write_text("x")
        (folder / "inside").chmod(mode)
        folder.chmod(mode)
    (root / "link").symlink_to(beside)
    remove_as_anybody(backend, root)
    assert not root.exists()
    assert beside.stat().st_mode & 0o777 == 0o500
    beside.chmod(0o700)
    (beside / "inside").chmod(0o700)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1500, 3000], ids=["recursion", "path"])
def test_a_closed_folder_deeper_than_a_recursion_or_a_path_is_removed(job, depth):
    deepen(job, depth, inmost="os.makedirs('a/b'); os.chmod('a/b', 0); os.chmod('a', 0)")
    remove_as_anybody("slurm", job)
    assert not job.exists()
