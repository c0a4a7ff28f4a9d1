"""What is copied to nodes is all that they need: the standard library, and itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from batchai_magics.backends.slurm import programs

MODULES = (
    *("slurm.node.run_job", "slurm.node.run_rank", "slurm.node.run_command", "slurm.node.stop_watching"),
    "folders.stop_watch",
)


def test_the_programs_are_copied_once(tmp_path: Path) -> None:
    folder = programs.installed(tmp_path)
    (folder / "mark").touch()
    assert programs.installed(tmp_path) == folder
    assert (folder / "mark").exists()
    assert [path.name for path in (tmp_path / "programs").iterdir()] == [folder.name]


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_a_program_imports_nothing_that_was_not_copied(tmp_path: Path, module: str) -> None:
    folder = programs.installed(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(folder)!r});"
        f"import batchai_magics.backends.{module};"
        "print([m.__file__ for n, m in sys.modules.items() if n.startswith('batchai') and m.__file__])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert str(Path(programs.__file__).parents[3]) not in done.stdout


@pytest.mark.slow
def test_what_is_copied_comes_before_what_is_installed(tmp_path: Path) -> None:
    folder = programs.installed(tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(folder)!r});"
        "import batchai_magics.errors as errors; print(errors.__file__)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(folder))
