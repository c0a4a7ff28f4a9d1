"""Jobs that are created together are tasks of one array, which Slurm throttles."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from batchai_magics.backends.base import NewJob
from batchai_magics.backends.slurm.node.run_files import RunFiles
from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.models.states import ExecutionState
from batchai_magics.records.record_files import TRIAL
from batchai_magics.records.trial_record import TrialRecord
from tests.contract.place import Place
from tests.world import until

pytestmark = pytest.mark.slow


def trials(place: Place, command: str, count: int, parallel: int) -> list[NewJob]:
    """The jobs of a sweep."""
    records = [{TRIAL: TrialRecord("s", n, parallel).to_text()} for n in range(count)]
    return [NewJob(place.job(f"s-t{n}"), place.spec(command), text) for n, text in enumerate(records)]


def files_of(place: Place, job: NewJob) -> RunFiles:
    guid = place.backend.show(job.id).output_path_segment.rpartition("/")[2]
    return RunFiles(place.backend.layout.job(guid).root)


def test_jobs_are_tasks_of_one_array_with_a_limit_of_running_tasks(place, slurm, tmp_path):
    jobs = trials(place, f"while [ ! -e {tmp_path}/go ]; do sleep 0.1; done; echo done", 4, parallel=1)
    place.backend.create_jobs(jobs)
    numbers = [files_of(place, job).submission(1).slurm_job for job in jobs]
    array = numbers[0].partition("_")[0]
    assert numbers == [f"{array}_{n}" for n in range(4)]
    assert "ArrayTaskThrottle=1" in slurm.ask("scontrol", "show", "job", array)
    until(lambda: place.backend.show(jobs[0].id).state is ExecutionState.RUNNING)
    place.backend.terminate(jobs[3].id)
    until(lambda: place.backend.show(jobs[3].id).is_cancelled)
    place.backend.terminate(jobs[0].id)
    until(lambda: place.backend.show(jobs[1].id).state is ExecutionState.RUNNING)
    assert place.backend.show(jobs[0].id).is_cancelled
    assert place.backend.show(jobs[2].id).state is ExecutionState.QUEUED
    (tmp_path / "go").touch()
    ended = [place.wait(job.id).execution for job in jobs[1:3]]
    assert [each.exit_code for each in ended] == [0, 0], ended
    assert place.log(jobs[1].id) == b"done\n"


def test_a_task_whose_submitter_died_is_found_by_the_comment_of_its_array_and_its_number(place, tmp_path):
    jobs = trials(place, f"while [ ! -e {tmp_path}/go ]; do sleep 0.1; done", 3, parallel=1)
    place.backend.create_jobs(jobs)
    files = files_of(place, jobs[1])
    noted = files.submission(1).slurm_job
    (files.root / "submission-1.json").unlink()
    with closing(SlurmBackend(replace(place.backend.settings, lost_s=0.0))) as backend:
        until(lambda: backend.show(jobs[1].id) and (backend.reconcile() or files.submission(1)))
    assert files.submission(1).slurm_job == noted
    (tmp_path / "go").touch()
    assert [place.wait(job.id).execution.exit_code for job in jobs] == [0, 0, 0]


def test_a_task_that_is_cancelled_in_slurm_before_it_starts_is_cancelled(place, slurm, tmp_path):
    jobs = trials(place, f"while [ ! -e {tmp_path}/go ]; do sleep 0.1; done", 3, parallel=1)
    place.backend.create_jobs(jobs)
    until(lambda: place.backend.show(jobs[0].id).state is ExecutionState.RUNNING)
    slurm.ask("scancel", files_of(place, jobs[2]).submission(1).slurm_job)
    job = place.wait(jobs[2].id)
    assert (job.is_cancelled, job.execution.errors[0].code) == (True, "JobTerminated")
    assert place.backend.show(jobs[1].id).state is ExecutionState.QUEUED
    (tmp_path / "go").touch()
    assert [place.wait(job.id).execution.exit_code for job in jobs[:2]] == [0, 0]
