"""The preflight of a local job: a slow node ends it before its first rank; a smaller job may have MPI."""

from __future__ import annotations

import pytest

from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.states import ExecutionState
from batchai_magics.records.preflight import PreflightReport
from tests.patience import PATIENCE_S
from tests.throttle import found_alone, throttled
from tests.world import World, files_containing

pytestmark = pytest.mark.slow


def run_throttled(world: World, options: str, script: str, node: int) -> tuple[Job, PreflightReport]:
    """A job whose preflight found that node slow, and no other one."""

    def run(number: int) -> tuple[Job, PreflightReport]:
        job = world.submit(f"train{number} --nodes 3 --grow {options}", script)
        with throttled(world.guid(job), node):
            job.wait(PATIENCE_S)
        return job, job.preflight()

    return found_alone(node, run)


def test_a_slow_node_ends_the_job_before_its_first_rank(world: World) -> None:
    job, report = run_throttled(world, "--check", "print('started')", 1)
    (error,) = job.show().execution.errors
    slow = report.nodes[1].node
    assert (job.state, error.code) == (ExecutionState.FAILED, "JobPreflightFailed")
    assert f"{slow} is slow: its processor does" in error.message
    assert job.log() == ""
    assert files_containing(world.home / "shares", f"{slow} is slow")  # in the execution logs


def test_the_ranks_of_a_smaller_job_are_one_mpi_job(world: World) -> None:
    script = "from mpi4py import MPI\nprint('sum', MPI.COMM_WORLD.allreduce(1), flush=True)"
    job, report = run_throttled(world, "--processes 6 --exclude-bad --prep 'echo ready'", script, 0)
    assert report.excluded == (report.nodes[0].node,)
    assert (job.state, job.log()) == (ExecutionState.SUCCEEDED, "sum 4\n" * 4)
    assert len(job.ranks()) == 4
