"""The handle: what a notebook holds of a job, also after a restart."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from batchai_magics import cell
from batchai_magics.commands.output.job_list import JobList
from batchai_magics.errors import NotFoundError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.submit import submit
from batchai_magics.models.states import ExecutionState
from tests.patience import PATIENCE_S
from tests.world import World

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
    job = world.submit("j", "print('x')")

    async def get():
        return await job

    with ThreadPoolExecutor() as aside:  # a browser's tests leave a loop in this thread
        assert aside.submit(asyncio.run, get()).result().state is ExecutionState.SUCCEEDED


SCORED = r"j --metric 'score=score is (\S+)'"


def test_a_job_keeps_the_patterns_that_it_was_submitted_with(world: World) -> None:
    job = world.run(SCORED, "print('score is 0.5')")
    found = Job(job.backend, job.id)
    assert list(found.metrics()["score"]) == [0.5]
    table = JobList([found.show()], found.backend).to_table()
    assert dict(zip(table.titles, table.rows[0], strict=True))["Metric"] == "score 0.5"


def test_a_pattern_that_a_cell_gains_is_kept_with_its_run(world: World) -> None:
    first = world.run("j", "print('score is 0.5')")
    second = world.run(SCORED, "print('score is 0.5')")
    assert second.id == first.id
    assert Job(first.backend, first.id).patterns == {"score": r"score is (\S+)"}


def test_a_script_finds_the_notebooks_variables_and_its_arguments(world: World) -> None:
    script = "import sys\nfrom pathlib import Path\nprint(lr, sys.argv[1:], Path(__file__).name, __name__)\n"
    for line in ("j --use lr --args -v", "k --use lr --args -v --toolkit custom"):
        request = cell.parse(line, script, settings=world.settings, notebook=cell.Notebook(names={"lr": 0.5}))
        job = submit(world.backend, request, world.settings).job.wait(PATIENCE_S)
        assert job.log() == f"0.5 ['-v'] {job.name}.py __main__\n", job.log(file="stderr.txt")


def test_a_failure_in_a_script_with_variables_names_its_line(world: World) -> None:
    request = cell.parse(
        "j --use lr", "\nprint(1 / lr)", settings=world.settings, notebook=cell.Notebook(names={"lr": 0})
    )
    job = submit(world.backend, request, world.settings).job.wait(PATIENCE_S)
    assert job.error.place == "cell line 3"
    assert any("line 2, in <module>  ← line 3 of the cell" in line for line in job.error.lines), job.error
