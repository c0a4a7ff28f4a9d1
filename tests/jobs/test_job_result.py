"""`job.result`, of real jobs."""

import pytest

from batchai_magics.errors import NotFoundError, StorageError
from batchai_magics.jobs.job_result import FILE, FOLDER
from tests.world import World

pytestmark = pytest.mark.slow

SLEEPS = "import time\nresult = 1\ntime.sleep(600)"


def place_of(world, job):
    (file,) = [file for file in job.files(FOLDER) if file.name == FILE]
    return next(world.home.glob(f"shares/**/{job.show().output_path_segment}/outputs/result/{file.name}"))


def test_what_rank_0_sets_comes_back(world: World) -> None:
    script = "import os\nresult = {'rank': os.environ['PMI_RANK'], 'losses': (1, 2.5)}"
    job = world.run("r --nodes 2 --processes 3", script)
    assert job.result == {"rank": "0", "losses": (1, 2.5)}


def test_variables_go_there_and_the_result_comes_back(world: World) -> None:
    from batchai_magics import cell
    from batchai_magics.jobs.submit import submit

    request = cell.parse(
        "r --use lr --args 7 --toolkit pytorch",
        "import sys\nresult = [lr * int(sys.argv[1]), __name__]\nsys.exit(0)",
        settings=world.settings,
        notebook=cell.Notebook(names={"lr": 2}),
    )
    job = submit(world.backend, request, world.settings).job.wait()
    assert job.result == [14, "__main__"]


def test_a_job_that_runs_has_none_yet(world: World) -> None:
    job = world.submit("r", SLEEPS)
    with pytest.raises(NotFoundError, match=r"no result yet: it is [\s\S]*job.wait"):
        _ = job.result


def test_a_cell_that_sets_none_is_told_how(world: World) -> None:
    job = world.run("r", "print(1)")
    with pytest.raises(NotFoundError, match=r"sets no `result`[\s\S]*assign a global"):
        _ = job.result


def test_a_value_that_cannot_come_back_fails_no_job_and_says_why(world: World) -> None:
    job = world.run("r", "result = open('/dev/null')")
    assert job.exit_code == 0
    with pytest.raises(StorageError, match=r"_io\.TextIOWrapper is not plain data"):
        _ = job.result


def test_a_file_that_was_damaged_is_told_so(world: World) -> None:
    job = world.run("r", "result = 1")
    place_of(world, job).write_text("cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(StorageError, match="cannot be read: it is no JSON"):
        _ = job.result


def test_an_error_in_such_a_script_is_shown_from_its_own_line(world: World) -> None:
    job = world.run("r", "result = 1\nprint(undefined)")
    text = job.log(file="stderr.txt")
    assert "run_cell.py" not in text
    assert "NameError" in text
