"""Files that go with a cell: a package stays one on every rank, and an unchanged one is the same job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import nbformat
import pytest

from batchai_magics import cell
from batchai_magics.jobs.folder_snapshot import read_module, read_script
from batchai_magics.jobs.submit import submit
from tests.cell.shiny_wheel import needs_uv, shiny_wheel
from tests.contract.place import Place
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("nodes")]

FILES = {
    "a/__init__.py": "",
    "a/models/__init__.py": "",
    "a/models/net.py": "NAME = 'net'",
    "data/é.csv": "7",
}
IN_PLACE = """
import os
from pathlib import Path
from a.models import net
texts = [open(name).read() for name in ("data/é.csv", "one.txt")]
print(net.NAME, *sorted(os.listdir()), *texts, os.path.islink("data"))
Path("data/é.csv").write_text("changed")
"""


@pytest.mark.sample
def test_uploads_are_in_the_working_directory_of_every_rank_as_copies(place: Place, tmp_path: Path) -> None:
    for name, text in {**FILES, "../elsewhere/one.txt": "7"}.items():
        file = tmp_path / "notebook" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    line = "placed --nodes 2 --toolkit pytorch --upload a data ../elsewhere/one.txt --use x"
    notebook = cell.Notebook(names={"x": 1}, folder=tmp_path / "notebook")
    words = f"{line} --prep 'test -f one.txt && touch z'"
    request = cell.parse(words, IN_PLACE + "x", settings=place.settings, notebook=notebook)
    for _ in range(2):  # the first has changed its own copy
        job = submit(place.backend, replace(request, is_new=True), place.settings).job.wait(PATIENCE_S)
        assert job.log() == "net a data one.txt z 7 7 False\n" * 2, job.log(file="stderr.txt")
    again = submit(place.backend, request, place.settings)
    assert (again.is_new, again.job.id) == (False, job.id)


PROJECT = {
    "src/lib/__init__.py": "WORD = 'found'",
    "configs/a b.txt": "lr 0.1",
    "scripts/near.py": "WORD = 'near'",
    ".env": "A=1",
    "scripts/été.py": (
        "import os, sys; sys.path.insert(0, 'src')\n"
        "import lib, near\n"
        "texts = [open(f'{name}/a b.txt').read() for name in ('configs', 'linked')]\n"
        "print(lib.WORD, near.WORD, *texts, sys.argv[1:])\n"
        "print(sorted(os.listdir()))\n"
    ),
}


def test_a_script_runs_in_a_copy_of_its_project(place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    for name, text in PROJECT.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "linked").symlink_to("configs")
    script = read_script(Path("scripts/été.py"), folder)
    notebook = cell.Notebook(folder=folder, job_name="project")
    options = ["--toolkit=pytorch", "--nodes=2", "--processes=2"]
    request = cell.parse_script(options, ["a b"], script, settings=place.settings, notebook=notebook)
    job = submit(place.backend, request, place.settings).job.wait(PATIENCE_S)
    assert job.log().count("found near lr 0.1 lr 0.1 ['a b']") == 2, job.log(file="stderr.txt")
    assert job.log().count("['configs', 'linked', 'scripts', 'src']") == 2


MODULE = """
import os, sys
from .part import WORD
names = ("RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_WORLD_SIZE")
print("module", WORD, *[os.environ[name] for name in names], sys.argv[1:], __name__, open("data.txt").read())
"""


def test_a_module_runs_with_its_package_and_all_that_torchrun_sets(place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "project"  # not that of the home
    for name, text in {"pkg/part.py": "WORD = 'found'", "pkg/train.py": MODULE, "data.txt": "7"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    script = replace(read_module("pkg.train", folder), rank_option="--local_rank")
    notebook = cell.Notebook(folder=folder, job_name="module")
    options = ["--toolkit=pytorch", "--nodes=2", "--processes=4"]
    request = cell.parse_script(options, ["a b"], script, settings=place.settings, notebook=notebook)
    job = submit(place.backend, request, place.settings).job.wait(PATIENCE_S)
    told = [
        f"module found {rank} 2 {rank // 2} 4 ['--local_rank={rank % 2}', 'a b'] __main__ 7"
        for rank in range(4)
    ]
    assert sorted(job.log().splitlines()) == told, job.log(file="stderr.txt")


def test_the_kernels_of_a_notebook_are_the_ranks_of_the_job(place: Place, tmp_path: Path) -> None:
    sum_cell = "from mpi4py import MPI\nworld = MPI.COMM_WORLD\nprint('sum', world.allreduce(world.rank + x))"
    cells = [nbformat.v4.new_code_cell(source) for source in (sum_cell, "open('data.txt').read()")]
    folder = tmp_path / "project"  # not that of the home
    folder.mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "analysis.ipynb")
    (folder / "data.txt").write_text("seven")
    script = read_script(Path("analysis.ipynb"), folder)
    notebook = cell.Notebook(folder=folder, job_name="analysis")
    options = ["--nodes=2", "--processes=2"]
    request = cell.parse_script(options, ["x=10"], script, settings=place.settings, notebook=notebook)
    job = submit(place.backend, request, place.settings).job.wait(PATIENCE_S)
    printed = [line for line in job.log().splitlines() if line[:4] != "cell"]
    assert sorted(printed) == ["'seven'", "'seven'", "sum 21", "sum 21"], job.log(file="stderr.txt")


@needs_uv
@pytest.mark.needs("preparation")
def test_ranks_have_the_packages_that_a_line_names(place: Place, tmp_path: Path) -> None:
    wheel = shiny_wheel(tmp_path)
    script = "import shiny, sys; print(shiny.COLOUR, 'environments' in sys.prefix)"
    for name in ("first", "second"):  # the second finds the environment there
        job = place.run_cell(f"{name} --nodes 2 --toolkit pytorch --with {wheel}", script)
        assert job.log() == "gold True\n" * 2, job.log(file="stderr.txt")
