"""Folders that are made here and at the other end of ssh, for their owner alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from batchai_magics.backends.machines import agent_files
from batchai_magics.backends.service import private_files
from batchai_magics.errors import StorageError

IMPOSSIBLE = Path("/proc/nope/home")


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "c"
    private_files.make_folder(folder)
    private_files.make_folder(folder)
    assert {path.stat().st_mode & 0o777 for path in (folder, *folder.parents[:2])} == {0o700}


def test_where_nothing_can_be_made_the_attempt_ends_with_an_error() -> None:
    with pytest.raises(OSError, match="nope"):
        private_files.make_folder(IMPOSSIBLE)
    with pytest.raises(OSError, match="nope"):
        agent_files.mkdir(str(IMPOSSIBLE), 0o700, parents=True)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_file_is_replaced_at_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "new" / "note"
    for text in ("first", "é"):
        private_files.write(file, text)
        assert file.read_text(encoding="utf-8") == text
    (tmp_path / "new" / "note.part").write_text("left by one that was killed")
    private_files.write(file, "third")
    assert (file.read_text(), [path.name for path in file.parent.iterdir()]) == ("third", ["note"])
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)


def test_of_all_who_create_a_file_one_does(tmp_path: Path) -> None:
    file = tmp_path / "new" / "note"
    assert private_files.write_new(file, "é") is True
    assert private_files.write_new(file, "second") is False
    assert (file.read_text(encoding="utf-8"), mode(file)) == ("é", 0o600)
    assert [path.name for path in file.parent.iterdir()] == ["note"]


def test_a_file_is_not_created_without_what_it_needs(tmp_path: Path) -> None:
    file, needed = tmp_path / "note", tmp_path / "needed"
    with pytest.raises(FileNotFoundError):
        private_files.write_new(file, "text", needs=needed)
    assert not file.exists()
    needed.touch()
    assert private_files.write_new(file, "text", needs=needed)


def test_a_link_is_made_once_and_stays(tmp_path: Path) -> None:
    link = tmp_path / "new" / "link"
    for target in ("first", "second"):
        private_files.make_link(link, tmp_path / target)
    assert link.readlink() == tmp_path / "first"
    assert mode(link.parent) == 0o700


def test_text_is_appended_to_a_private_file(tmp_path: Path) -> None:
    file = tmp_path / "new" / "log"
    for text in ("é\n", "two\n"):
        private_files.append(file, text)
    assert (file.read_text(encoding="utf-8"), mode(file)) == ("é\ntwo\n", 0o600)


def test_a_folder_goes_with_all_that_is_in_it_and_nothing_that_it_links_to(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    (folder / "inner").mkdir(parents=True)
    outside.mkdir()
    (outside / "kept").touch()
    (folder / "inner" / "link").symlink_to(outside)
    private_files.remove_folder(folder)
    assert not folder.exists()
    assert (outside / "kept").exists()
    private_files.remove_folder(folder)


def test_writes_on_this_machine_need_no_pipeline(tmp_path: Path) -> None:
    with private_files.pipelined(tmp_path):
        private_files.write(tmp_path / "note", "text")
    assert (tmp_path / "note").exists()


@pytest.mark.parametrize("setting", ["slurm.home", "BATCHAI_HOME"])
def test_a_home_that_cannot_be_made_names_its_setting(setting: str) -> None:
    with pytest.raises(StorageError, match="cannot be used") as caught:
        private_files.make_home(IMPOSSIBLE, setting=setting)
    assert setting in caught.value.hint


@pytest.mark.slow
def test_a_folder_that_is_deeper_than_a_recursion_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    deep = "import os\nfor _ in range(1500):\n    os.mkdir('d')\n    os.chdir('d')"
    subprocess.run([sys.executable, "-c", deep], cwd=folder, check=True)
    try:
        private_files.remove_folder(folder)
        assert not folder.exists()
    finally:  # pytest itself could not remove it
        subprocess.run(["rm", "-rf", folder], check=True)
