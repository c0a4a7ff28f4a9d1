"""The preflight of a local job: a slow node ends it before its first rank; a smaller job may have MPI."""

from __future__ import annotations

import pytest

from batchai_magics.models.states import ExecutionState
from tests.patience import PATIENCE_S
from tests.throttle import throttled
from tests.world import World, files_containing

pytestmark = pytest.mark.slow


def test_a_slow_node_ends_the_job_before_its_first_rank(world: World) -> None:
    job = world.submit("train --nodes 3 --grow --check", "print('started')")
    with throttled(world.guid(job), 1):
        job.wait(PATIENCE_S)
    (error,) = job.show().execution.errors
    slow = job.preflight().nodes[1].node
    assert (job.state, error.code) == (ExecutionState.FAILED, "JobPreflightFailed")
    assert f"{slow} is slow: its processor does" in error.message
    assert job.log() == ""
    assert files_containing(world.home / "shares", f"{slow} is slow")  # in the execution logs


def test_the_ranks_of_a_smaller_job_are_one_mpi_job(world: World) -> None:
    script = "from mpi4py import MPI\nprint('sum', MPI.COMM_WORLD.allreduce(1), flush=True)"
    job = world.submit("train --nodes 3 --processes 6 --grow --exclude-bad --prep 'echo ready'", script)
    with throttled(world.guid(job), 0):
        job.wait(PATIENCE_S)
    assert job.preflight().excluded == (job.preflight().nodes[0].node,)
    assert (job.state, job.log()) == (ExecutionState.SUCCEEDED, "sum 4\n" * 4)
    assert len(job.ranks()) == 4
