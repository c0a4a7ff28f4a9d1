"""How far a real job is, as its handle, its card and the list of jobs tell."""

import pytest

from batchai_magics.cards.job_card import to_text
from batchai_magics.commands.output.job_list import JobList
from batchai_magics.jobs.job_overview import job_overview
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.states import ExecutionState
from tests.world import World, until, world

pytestmark = pytest.mark.slow

__all__ = ["world"]
BAR = """
import sys, time
sys.stderr.write("\\r 45%|####5     | 45/100 [00:01<10:00, 45it/s]")
sys.stderr.flush()
time.sleep(1000)
"""
RANKS = """
import os, time
rank = int(os.environ["PMI_RANK"])
print(f"step {10 + rank}/40", flush=True)
time.sleep(1000)
"""


def table(world):
    return JobList(world.backend.list(world.experiment, Kind.JOB), world.backend).to_table()


def test_a_running_bar_without_an_end_of_its_line_is_read(world: World) -> None:
    world.run("quiet")
    assert table(world).titles[-1] == "Exit code"
    job = world.submit("bar", BAR)
    progress = until(job.progress)
    assert (progress.fraction, progress.words) == (0.45, "45/100")
    assert "45 %, 45/100, " in job_overview(job).details["progress"]
    shown = table(world)
    assert shown.titles[-1] == "Progress"
    assert shown.rows[0][-1] == ""
    assert shown.rows[1][-1].startswith("45 %, 45/100, ")
    job.cancel()
    until(lambda: job.state is ExecutionState.FAILED)
    assert job.progress().words == "45/100"
    assert job_overview(job).details["progress"] == "cancelled at 45/100, 45 %"
    assert table(world).rows[1][-1] == "cancelled at 45/100, 45 %"
    assert "left" not in to_text(job_overview(job))


@pytest.mark.parametrize(("ending", "told"), [("sys.exit(3)", "failed at step 120/500, 24 %"), ("", None)])
def test_a_job_that_failed_says_how_far_it_came_and_one_that_succeeded_does_not(
    world: World, ending: str, told: str | None
) -> None:
    job = world.run("short", f"import sys\nprint('step 120/500')\n{ending}\n")
    assert job_overview(job).details.get("progress") == told
    assert ("Progress" in table(world).titles) == (told is not None)
    assert (job.progress() is None) == (told is None)


def test_a_job_that_its_predecessor_ended_names_it(world: World) -> None:
    world.run("first", "raise SystemExit(1)")
    second = world.submit("second --after first").wait()
    assert table(world).rows[1][-1] == "first did not succeed"
    (problem,) = job_overview(second).problems
    assert "first did not succeed, and the job was to start after it" in problem


def test_the_lowest_rank_tells_how_far_a_job_of_many_is(world: World) -> None:
    job = world.submit("ranks --nodes 2 --processes 4", RANKS)
    until(lambda: job.log().count("\n") == 4)
    assert job.progress().words == "step 10/40"
