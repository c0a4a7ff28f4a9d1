"""Jobs that start after others on a real Slurm, also while nobody looks, and as the job's state has it."""

from __future__ import annotations

import time

import pytest

from batchai_magics.errors import SpecError
from batchai_magics.launch.outcome import Outcome
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.states import ExecutionState
from tests.backends.slurm.job_files import files, first_error, number
from tests.backends.slurm.jobs.test_attempts import AGAIN, TWICE
from tests.contract.place import HOLD, MOUNTED, manual
from tests.world import until

pytestmark = pytest.mark.slow


def after(job: ResourceId, field: str = "batchaiAfter") -> dict[str, list[str]]:
    return {field: [str(job)]}


def test_successors_follow_the_recorded_end_of_a_predecessor_without_a_reader(place, slurm):
    lost, done = place.start(HOLD, "lost"), place.start(HOLD, "done")
    for job in (lost, done):
        place.is_up(job)
    second, fourth = place.start(name="second", **after(lost)), place.start(name="fourth", **after(done))
    third = place.start(name="third", **after(second))
    files(place, done).note_end(Outcome(0, ended=time.time()))
    for job in (lost, done):  # their programs, which can report nothing then
        slurm.ask("scancel", "--batch", "--signal=KILL", number(place, job))
    until(lambda: all(files(place, job).outcome for job in (second, third, fourth)))  # no status is read
    assert [first_error(place.wait(job)).code for job in (second, third)] == ["DependencyFailed"] * 2
    assert (place.wait(fourth).state, place.log(fourth)) == (ExecutionState.SUCCEEDED, b"hello\n")


def test_a_dependency_of_slurms_own_does_not_go_with_it(place):
    first = place.start(HOLD, "first")
    with pytest.raises(SpecError, match="--dependency does not go with --after"):
        place.start(name="second", batchaiSlurm="--dependency=singleton", **after(first))


def test_a_job_goes_on_waiting_for_one_that_slurm_queues_again(again_place, again_slurm):
    place = again_place
    first = place.start(TWICE, "first", **AGAIN)
    until(lambda: place.log(first).startswith(b"up"))
    second = place.start("echo ran", "second", **after(first))
    again_slurm.ask("scontrol", "requeue", number(place, first))
    until(lambda: place.backend.show(first).attempts)
    assert place.backend.show(second).waiting == "first has to succeed first"
    assert place.wait(second).state is ExecutionState.SUCCEEDED
    assert len(place.backend.show(first).attempts) == 2
    assert place.backend.show(first).execution.ended <= place.backend.show(second).execution.started


def test_a_job_goes_back_to_the_queue_if_its_predecessor_is_to_run_again(again_place, again_slurm):
    place, go = again_place, f"{MOUNTED}/go"
    line = f"echo up; while [ ! -e {go} ]; do sleep 0.1; done"
    first = place.start(line, "first", nodeCount=2)
    place.is_up(first)
    second = place.start("echo ran", "second", **after(first))
    place.scale(place.cluster, manual(1))  # too small for the first, which is queued again
    line = ("scontrol", "show", "job", number(place, second))
    until(lambda: "Restarts=0" not in again_slurm.ask(*line))  # Slurm has started it once
    assert place.backend.show(second).waiting == "first has to succeed first"
    place.backend.storage.upload(place.share, {"go": b""})
    place.scale(place.cluster, manual(2))
    assert place.wait(second).state is ExecutionState.SUCCEEDED
    assert place.log(second) == b"ran\n"
    assert place.backend.show(first).execution.ended <= place.backend.show(second).execution.started


def test_a_job_goes_on_waiting_for_one_that_left_its_node_and_runs_as_another_slurm_job(
    again_place, again_slurm, tmp_path
):
    place, slurm, done = again_place, again_slurm, tmp_path / "done"
    place.is_up(place.start(HOLD))
    until_done = f"[ $BATCHAI_ATTEMPT = 2 ] || exec sleep 1000; until [ -e {done} ]; do sleep 0.1; done"
    first = place.start(f"echo up; {until_done}", "first")
    until(lambda: place.log(first))
    second = place.start("echo ran", "second", **after(first))
    place.scale(place.cluster, manual(1, "requeue"))
    again, waiting = number(place, first, attempt=2), number(place, second)
    place.scale(place.cluster, manual(2))
    until(lambda: place.log(first).count(b"up\n") == 2)
    place.backend.terminate(place.job())  # its node is free for the second one
    asked = ("squeue", "--noheader", f"--jobs={waiting}", "--format=%E")
    until(lambda: again in slurm.ask(*asked) or files(place, second).outcome)
    done.touch()
    ended, later = place.wait(first).execution, place.wait(second)
    assert (later.state, ended.ended <= later.execution.started) == (ExecutionState.SUCCEEDED, True)
    assert "Requeue=0" in slurm.ask("scontrol", "show", "job", waiting)  # it is not restarted for a lost node
