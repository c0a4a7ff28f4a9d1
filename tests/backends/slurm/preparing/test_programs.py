"""What is copied to nodes is all that they need: the standard library, and itself."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from batchai_magics.backends.folders import installed_programs
from batchai_magics.backends.slurm import sbatch
from batchai_magics.backends.slurm.runner import SlurmBackend

MODULES = {
    "slurm": ("slurm.node.run_job", "slurm.node.run_rank", "node.run_command", "folders.run_watch"),
    "ray": tuple(
        f"ray.node.{name}" for name in ("driver", "node_command", "supervisor", "node_actor", "run_node")
    ),
}


def test_the_programs_are_copied_once(tmp_path):
    folder = installed_programs.install(tmp_path, sbatch.PROGRAMS)
    (folder / "mark").touch()
    assert installed_programs.install(tmp_path, sbatch.PROGRAMS) == folder
    assert (folder / "mark").exists()
    assert [path.name for path in (tmp_path / "programs").iterdir()] == [folder.name]


@pytest.mark.slow
@pytest.mark.parametrize("engine", MODULES)
def test_programs_import_nothing_that_was_not_copied(tmp_path, engine):
    folder = installed_programs.install(tmp_path, f"backends/{engine}/node")
    imports = "".join(f"import batchai_magics.backends.{module};" for module in MODULES[engine])
    code = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); {imports}"
        "print([m.__file__ for n, m in sys.modules.items() if n.startswith('batchai') and m.__file__])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert str(Path(sbatch.__file__).parents[3]) not in done.stdout


@pytest.mark.slow
def test_what_is_copied_comes_before_what_is_installed(tmp_path):
    folder = installed_programs.install(tmp_path, sbatch.PROGRAMS)
    code = (
        f"import sys; sys.path.insert(0, {str(folder)!r});"
        "import batchai_magics.errors as errors; print(errors.__file__)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(folder))


@pytest.mark.slow
def test_a_python_that_is_too_old_for_the_nodes_is_named_before_a_rank_starts(place):
    found = sorted((Path.home() / ".pyenv/versions").glob("3.[6-9].*/bin/python3"))
    if not found:
        pytest.skip("no Python older than 3.10 here")
    for number, old in enumerate((found[0], found[-1])):
        backend = SlurmBackend(replace(place.backend.settings, python=str(old)))
        id = place.job(f"job{number}")
        backend.create(id, place.spec("echo started"))
        message = place.wait(id).execution.errors[0].message
        words = f"Python 3.10 or newer is needed on the nodes, and {old} is {old.parts[-3]}: set slurm.python"
        assert words in message
        assert place.log(id) == b""
