"""What a supervisor imports: little, and nothing that somebody put in the place of a module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import batchai_magics
from batchai_magics.backends.local import process
from batchai_magics.backends.local.process import PACKAGE_ROOT, clean_environment
from tests.world import World

SLOW = {"pydantic", "dataclasses", "hashlib", "shutil", "socket", "difflib", "psutil", "random", "tempfile"}
LOADS = """
import re, sys
sys.path.insert(0, {root!r})
compiled, compile = set(), re.compile
def note(*given, **named):
    compiled.add(sys._getframe(1).f_globals["__name__"])
    return compile(*given, **named)
re.compile = note
import batchai_magics.backends.local.supervisor
print(*sys.modules, *(f"re.compile in {{name}}".replace(" ", "-") for name in compiled))
"""


@pytest.mark.slow
def test_supervisor_starts_without_slow_imports_that_few_jobs_need() -> None:
    argv = [sys.executable, "-I", "-S", "-c", LOADS.format(root=PACKAGE_ROOT)]
    loaded = set(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())
    assert not SLOW & loaded
    assert not {name for name in loaded if name.startswith("batchai_magics.models.runs.")}
    assert not {name for name in loaded if name.startswith("re.compile-in-batchai_magics")}


def test_the_path_is_no_longer_for_a_job_that_another_one_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(["/usr/bin", "/env/bin", "/bin"]))
    first = clean_environment("/env/bin/python")["PATH"]
    assert first.split(os.pathsep) == ["/env/bin", "/usr/bin", "/env/bin", "/bin"]
    monkeypatch.setenv("PATH", first)
    assert clean_environment("/env/bin/python")["PATH"] == first


PLANTED = "raise SystemExit('a module that was planted')"
NAMES = ("json", "sqlite3", "subprocess", "contextlib", "batchai_magics")


def plant(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / f"{name}.py").write_text(PLANTED)
    return folder


@pytest.mark.slow
def test_a_file_beside_the_package_is_not_imported(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = plant(tmp_path / "root", *NAMES[:-1])
    (root / "batchai_magics").symlink_to(Path(batchai_magics.__file__).parent, target_is_directory=True)
    monkeypatch.setattr(process, "PACKAGE_ROOT", str(root))
    job = world.run("beside --nodes 1 --processes 1 --stop-if 'loss is nan'", "print('hello')")
    assert job.log() == "hello\n"


@pytest.mark.slow
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
