"""What a supervisor imports: nobody puts a module of theirs in the place of one of the standard library."""

from __future__ import annotations

from pathlib import Path

import pytest

import batchai_magics
from batchai_magics.backends.local import process
from tests.world import World

pytestmark = pytest.mark.slow
PLANTED = "raise SystemExit('a module that was planted')"
NAMES = ("json", "sqlite3", "subprocess", "contextlib", "batchai_magics")


def plant(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / f"{name}.py").write_text(PLANTED)
    return folder


def test_a_file_beside_the_package_is_not_imported(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = plant(tmp_path / "root", *NAMES[:-1])
    (root / "batchai_magics").symlink_to(Path(batchai_magics.__file__).parent, target_is_directory=True)
    monkeypatch.setattr(process, "PACKAGE_ROOT", str(root))
    job = world.run("beside --nodes 1 --processes 1 --stop-if 'loss is nan'", "print('hello')")
    assert job.log() == "hello\n"


def test_a_file_on_the_users_path_is_not_imported_and_the_path_still_reaches_the_ranks(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = plant(tmp_path / "mine", *NAMES)
    (folder / "of_mine.py").write_text("print('imported')")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    script = "import os, of_mine; print(os.environ['PYTHONPATH'])"
    shown = world.run("mine --nodes 1 --processes 1", script).log()
    assert shown.splitlines()[0] == "imported"
    assert shown.splitlines()[1].split(":")[0] == str(folder)
