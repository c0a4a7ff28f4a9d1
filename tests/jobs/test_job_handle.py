"""The handle: what a notebook holds of a real job, also after a restart."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from batchai_magics import cell
from batchai_magics.commands.output.job_list import JobList
from batchai_magics.errors import BatchAIError, NotFoundError, StorageError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_result import FILE, FOLDER
from batchai_magics.jobs.submit import submit
from batchai_magics.models.resources import Cluster
from batchai_magics.models.states import ExecutionState
from tests.patience import PATIENCE_S
from tests.world import World, world

__all__ = ["world"]
pytestmark = pytest.mark.slow


def test_a_long_log_is_read_whole_and_from_its_end(world: World, tmp_path) -> None:
    job = world.run("j", "for i in range(200000): print('line', i)")
    assert job.log(2) == "line 199998\nline 199999\n"
    assert len(job.log().splitlines()) == 200000
    place = job.download("stdout.txt", tmp_path / "new")
    assert place.read_text() == job.log()
    assert [p.name for p in place.parent.iterdir()] == ["stdout.txt"]
    with pytest.raises(NotFoundError, match=r"job j has no file missing\.txt") as caught:
        job.log(file="missing.txt")
    assert "stderr.txt, stdout.txt" in caught.value.hint


def test_a_job_can_be_awaited(world: World) -> None:
    job = world.submit("j", "import time\ntime.sleep(1)")
    with pytest.raises(NotFoundError, match=r"no result yet: it is [\s\S]*job.wait"):
        _ = job.result

    async def get():
        return await job

    with ThreadPoolExecutor() as aside:  # a browser's tests leave a loop in this thread
        assert aside.submit(asyncio.run, get()).result().state is ExecutionState.SUCCEEDED


SCORED = r"j --metric 'score=score is (\S+)'"


def test_a_job_keeps_the_patterns_that_it_was_submitted_with(world: World) -> None:
    first = world.run("j", "print('score is 0.5')")
    job = world.run(SCORED, "print('score is 0.5')")  # the same run, whose cell gains a pattern
    assert first.id == job.id
    found = Job(job.backend, job.id)
    assert list(found.metrics()["score"]) == [0.5]
    table = JobList([found.show()], found.backend).to_table()
    assert dict(zip(table.titles, table.rows[0], strict=True))["Metric"] == "score 0.5"


def test_a_script_finds_the_notebooks_variables_and_its_arguments(world: World) -> None:
    script = "import sys\nfrom pathlib import Path\nresult = lr\n"
    script += "print(lr, sys.argv[1:], Path(__file__).name, __name__)\n"
    for line in ("j --use lr --args -v", "k --use lr --args -v --toolkit custom"):
        request = cell.parse(line, script, settings=world.settings, notebook=cell.Notebook(names={"lr": 0.5}))
        job = submit(world.backend, request, world.settings).job.wait(PATIENCE_S)
        assert job.log() == f"0.5 ['-v'] {job.name}.py __main__\n", job.log(file="stderr.txt")
        assert job.result == 0.5


def test_a_failure_in_a_script_with_variables_names_its_line(world: World) -> None:
    request = cell.parse(
        "j --use lr", "\nprint(1 / lr)", settings=world.settings, notebook=cell.Notebook(names={"lr": 0})
    )
    job = submit(world.backend, request, world.settings).job.wait(PATIENCE_S)
    assert job.error.place == "cell line 3"
    assert any("line 2, in <module>  ← line 3 of the cell" in line for line in job.error.lines), job.error


def place_of(world, job):
    (file,) = [file for file in job.files(FOLDER) if file.name == FILE]
    return next(world.home.glob(f"shares/**/{job.show().output_path_segment}/outputs/result/{file.name}"))


def test_result_of_rank_0_is_returned(world: World) -> None:
    script = "import os\nresult = {'rank': os.environ['PMI_RANK'], 'losses': (1, 2.5)}"
    job = world.run("r --nodes 2 --processes 3", script)
    assert job.result == {"rank": "0", "losses": (1, 2.5)}


def test_error_about_a_missing_result_says_how_to_set_one(world: World) -> None:
    job = world.run("r", "print(1)")
    with pytest.raises(NotFoundError, match=r"sets no `result`[\s\S]*assign a global"):
        _ = job.result


def test_unsupported_result_does_not_fail_the_job_and_gives_the_reason(world: World) -> None:
    job = world.run("r", "result = open('/dev/null')")
    assert job.exit_code == 0
    with pytest.raises(StorageError, match=r"_io\.TextIOWrapper is not plain data"):
        _ = job.result


def test_damaged_result_file_is_reported(world: World) -> None:
    job = world.run("r", "result = 1")
    place_of(world, job).write_text("cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(StorageError, match="cannot be read: it is no JSON"):
        _ = job.result


def test_a_cluster_grows_for_a_job_that_asks_it_to(world: World) -> None:
    with pytest.raises(BatchAIError, match="add --grow, or"):
        world.submit("big --nodes 3")
    request = cell.parse("big --nodes 3 --grow", "print(1)", settings=world.settings)
    made = submit(world.backend, request, world.settings)
    assert made.note == "Resizing cluster default to 3 nodes."
    assert made.job.wait(PATIENCE_S).exit_code == 0
    again = cell.parse("small --grow", "print(1)", settings=world.settings)
    assert submit(world.backend, again, world.settings).note == ""
    cluster = world.backend.show(world.cluster)
    assert isinstance(cluster, Cluster)
    assert cluster.spec.scale_settings.manual.target_node_count == 3
