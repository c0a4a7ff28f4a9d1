"""Jobs that are created together, and real sweeps with MPI ranks, on every backend."""

from __future__ import annotations

import pytest

from batchai_magics.backends.base import NewJob
from batchai_magics.cell import Notebook
from batchai_magics.cell.sweep_request import parse_sweep
from batchai_magics.errors import ConflictError
from batchai_magics.jobs.sweeps.sweep_submission import submit_sweep
from batchai_magics.models.states import ExecutionState
from tests.contract.place import HOLD, Place
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("service")]
MPI = """
import os
from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(float(os.environ["PARAM_LR"]))
if world.rank == 0:
    print(f"step 1 loss {total:.3f}")
"""


@pytest.mark.sample
def test_jobs_are_created_together_and_identical_ones_are_found(place: Place) -> None:
    jobs = [NewJob(place.job(f"together-{n}x"), place.spec(f"echo {n}")) for n in range(3)]
    place.backend.create(jobs[1].id, jobs[1].spec)
    made = place.backend.create_jobs(jobs)
    assert [job.id.name for job in made] == [job.id.name for job in jobs]
    again = place.backend.create_jobs(jobs)
    assert [job.output_path_segment for job in again] == [job.output_path_segment for job in made]
    for job in jobs:
        assert place.wait(job.id).execution.exit_code == 0
    with pytest.raises(ConflictError):
        place.backend.create_jobs([NewJob(jobs[0].id, place.spec("echo another"))])


@pytest.mark.sample
def test_jobs_are_terminated_together_including_deleted_ones(place: Place) -> None:
    jobs = [NewJob(place.job(f"ended-{n}"), place.spec("sleep 600")) for n in range(3)]
    done = place.run("echo done").id
    place.backend.create_jobs(jobs)
    place.backend.terminate_jobs([jobs[0].id, place.job("gone"), done, jobs[2].id])
    for job in (jobs[0], jobs[2]):
        assert place.wait(job.id).is_cancelled
    assert place.backend.show(done).execution.exit_code == 0
    assert not place.backend.show(jobs[1].id).state.is_final
    place.backend.terminate_jobs([jobs[1].id])
    assert place.wait(jobs[1].id).is_cancelled


@pytest.mark.needs("storage")
def test_a_sweep_with_mpi_ranks_finds_the_best_trial(place: Place) -> None:
    line = 's --sweep "lr=0.3,0.1,0.2" --best "min loss" --parallel 2 --processes 2'
    settings = place.settings
    request = parse_sweep(line, MPI, settings=settings, notebook=Notebook())
    sweep = submit_sweep(place.backend, request, settings).sweep.wait(PATIENCE_S)
    results = sweep.results()
    assert results["state"].to_list() == ["succeeded"] * 3
    assert results["loss"].to_list() == [0.6, 0.2, 0.4]
    assert sweep.best.name == "s-t2"


@pytest.mark.needs("storage", "chains")
def test_the_trials_of_a_sweep_start_after_a_job_and_a_job_after_all_trials(place: Place) -> None:
    first = place.start(HOLD, "first")
    place.is_up(first)
    line, settings = 's --sweep "lr=0.3,0.1" --after first', place.settings
    request = parse_sweep(line, "print('loss', 1)", settings=settings, notebook=Notebook())
    sweep = submit_sweep(place.backend, request, settings).sweep
    waiting = [place.backend.show(place.job(f"s-t{number}")).waiting for number in (1, 2)]
    assert waiting == ["first has to succeed first"] * 2
    last = place.submit("last --after-any s")
    assert last.show().spec.batchai_after_any == tuple(str(place.job(f"s-t{number}")) for number in (1, 2))
    assert last.show().state is ExecutionState.QUEUED
    place.backend.terminate(first)
    sweep.wait(PATIENCE_S)
    assert last.wait(PATIENCE_S).state is ExecutionState.SUCCEEDED
    errors = [place.backend.show(place.job(f"s-t{number}")).execution.errors for number in (1, 2)]
    assert [[error.code for error in each] for each in errors] == [["DependencyFailed"]] * 2
