"""What failed first, of real jobs."""

import pytest

from batchai_magics.backends.base import Chunk, FileRef
from batchai_magics.cards.job_card import to_text
from batchai_magics.follow.job_errors import paths_of
from batchai_magics.jobs.job_overview import job_overview
from batchai_magics.models.job_execution import FileKind, OutputFile
from batchai_magics.models.states import ExecutionState
from batchai_magics.widgets.job.page_requests import failure_report
from tests.patience import PATIENCE_S
from tests.widgets.scripted_job import resource
from tests.world import until

pytestmark = pytest.mark.slow

SCRIPT = """
import os, sys, time
rank = int(os.environ["PMI_RANK"])
for line in range(2000):
    print(f"noise of rank {rank}", file=sys.stderr)
sys.stderr.flush()
print(f"step 1 of rank {rank}", flush=True)
def fail():
    raise ValueError("bad batch")
if rank == 1:
    time.sleep(0.5)
    fail()
time.sleep(1000)
"""


def failure(world, job):
    def read(file, offset, limit):
        return world.backend.read(FileRef(job.id, file), offset, limit)

    return failure_report(job.show(), read, job.files())


def test_the_first_failing_rank_is_named_with_its_own_last_lines_and_the_line_of_the_cell(world):
    job = world.run("bad --nodes 2 --processes 4", SCRIPT)
    found = failure(world, job)
    assert (found["rank"], found["exit_code"], found["file"]) == (1, 1, "stderr.txt")
    assert found["lines"][-1] == "ValueError: bad batch"
    assert not any("rank 0" in line or "rank 2" in line for line in found["lines"])
    assert found["before"] == ["step 1 of rank 1"]
    assert {other["rank"] for other in found["others"]} == {0, 2, 3}
    text = job.log(file="stderr.txt").encode()
    assert text[found["offset"] :].decode().startswith(found["lines"][0])
    assert paths_of(job.show()).script == "bad.py"
    line = SCRIPT.split("\n").index('    raise ValueError("bad batch")') + 2
    assert f"in fail  ← line {line} of the cell" in to_text(job_overview(job))


def test_a_job_that_was_ended_from_outside_has_no_first_failure(world):
    script = "import time\nprint('up', flush=True)\ntime.sleep(1000)"
    job = world.submit("long --nodes 1 --processes 2", script)
    until(lambda: job.log() == "up\nup\n")
    job.cancel()
    job.wait(PATIENCE_S)
    assert [rank.rank for rank in job.show().ranks if rank.exit_code]
    assert failure(world, job) == {}
    assert job.error is None
    assert "failed" not in to_text(job_overview(job))


@pytest.mark.parametrize(
    ("state", "lines"), [(ExecutionState.FAILED, ["no such package"]), (ExecutionState.SUCCEEDED, None)]
)
def test_the_last_lines_of_a_preparation_are_shown_where_no_process_of_the_job_failed(state, lines):
    log = b"no such package\n"

    def read(file, offset, limit):
        return Chunk(log[offset : offset + limit], offset, len(log), True)

    files = [OutputFile("stdout-job_prep-n1.txt", FileKind.FILE, len(log))]
    assert failure_report(resource(state), read, files).get("lines") == lines
