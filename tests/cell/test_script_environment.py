import subprocess
import sys

import pytest

from batchai_magics.cell import Notebook, parse
from batchai_magics.cell.cell_options import CellOptions
from batchai_magics.cell.cell_script import script_metadata, with_environment
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError
from tests.cell.shiny_wheel import needs_uv, shiny_wheel
from tests.world import World

BLOCK = """# /// script
# requires-python = ">=3.10"
# dependencies = [
#   "einops",
# ]
# ///
import einops
"""


def test_the_block_of_a_script_is_read():
    metadata = script_metadata(BLOCK)
    assert (metadata.packages, metadata.python) == (("einops",), ">=3.10")
    assert script_metadata("print(1)") is None


@pytest.mark.parametrize("line", ["# dependencies = [", '# dependencies = "einops"', "# dependencies = [1]"])
def test_a_wrong_block_is_refused(line):
    with pytest.raises(UsageError, match="`# /// script` is not valid"):
        script_metadata(f"# /// script\n{line}\n# ///\n")


def test_the_same_packages_share_an_environment_and_others_do_not():
    def python_of(*packages, script=""):
        return with_environment(CellOptions(packages=packages), script, "/share")[0].python

    assert python_of("einops") == python_of("einops") != python_of("numpy")
    assert python_of("einops") != python_of(script=BLOCK)
    assert python_of("einops").startswith("/share/environments/")


@pytest.mark.parametrize("toolkit", ["horovod", "pytorch", "custom", "mpi"])
def test_a_python_starts_the_script_of_every_toolkit(toolkit):
    notebook = Notebook(job_name="j")
    line = f"--toolkit {toolkit} --python /opt/py/bin/python"
    settings = parse(line, "print(1)", settings=Settings(), notebook=notebook).spec.settings
    assert "/opt/py/bin/python" in settings.model_dump_json()


def test_a_python_and_packages_exclude_each_other():
    with pytest.raises(UsageError, match="--python and --with are both given"):
        with_environment(CellOptions(python="p", packages=("a",)), "", "/share")


@needs_uv
@pytest.mark.slow
def test_a_block_makes_an_environment_without_other_packages(tmp_path):
    world = World(tmp_path)
    block = f"# /// script\n# dependencies = ['shiny @ file://{shiny_wheel(tmp_path)}']\n# ///\n"
    look = "import importlib.util, shiny; print(shiny.COLOUR, importlib.util.find_spec('numpy'))"
    assert world.run("alone", block + look).log() == "gold None\n"
    world.close()


@pytest.mark.slow
def test_a_machine_without_uv_says_so(tmp_path):
    from batchai_magics.cell import python_env

    words = [sys.executable, "-S", "-E", python_env.__file__, str(tmp_path / "env"), "isolated", ""]
    done = subprocess.run(words, capture_output=True, text=True, env={"PATH": "/nowhere"}, check=False)
    assert done.returncode == 1
    assert "uv makes the environment, and this machine has none" in done.stderr
