"""Runs that continue on a real Slurm: after time limits, preemptions and lost nodes, so often as they may."""

import pytest

from batchai_magics.models.states import ExecutionState
from tests.backends.slurm.job_files import first_error
from tests.backends.slurm.jobs.test_attempts import OTHER, PREEMPTING, UNTIL, on_partition
from tests.contract.resumable import RESUMED, said, started
from tests.world import processes_of, until

pytestmark = pytest.mark.slow
TIME_UP = "it reached its time limit"


def test_a_run_continues_after_its_time_limit_until_its_restarts_are_used_up(again_place):
    place = again_place
    ends = started(place, constraints={"maxWallClockTime": "PT10S"}, batchaiMaxRestarts=1)
    limit = {"maxWallClockTime": "PT1S"}
    hangs = place.start("exec sleep 1000", "used-up", constraints=limit, batchaiMaxRestarts=1)
    job = place.wait(hangs)
    assert first_error(job).code == "JobMaxWallClockTimeReached"
    assert [each.number for each in job.attempts] == [1, 2]
    job = place.wait(ends)
    assert (job.state, said(place, ends)) == (ExecutionState.SUCCEEDED, RESUMED), job.execution
    assert [each.reason for each in job.attempts] == [TIME_UP, ""]


def test_a_run_continues_before_slurms_own_time_limit(again_place, again_slurm):
    place = again_place
    fields = {"batchaiMaxRestarts": 1, "batchaiSignalBefore": "PT44S", "batchaiSlurm": "--time=1"}
    job = place.wait(started(place, "polite", **fields))
    assert said(place, job.id) == [RESUMED[0], "stops", *RESUMED[1:]]
    assert [each.reason for each in job.attempts][1:] == [""]
    # Slurm, which looks at its limits twice a minute, may be the first to say so.
    assert job.attempts[0].reason in (TIME_UP, "Slurm announced its end")


def test_ranks_on_two_nodes_are_warned_and_continue_with_their_secrets(again_place):
    place = again_place
    wait = "import batchai_magics as b, time; [time.sleep(0.1) for _ in iter(b.stopping, True)]"
    script = f"""echo $BATCHAI_ATTEMPT $TOKEN-; [ $BATCHAI_ATTEMPT = 2 ] || exec python3 -c "{wait}" """
    fields = {"constraints": {"maxWallClockTime": "PT10M"}, "batchaiSignalBefore": "PT9M58S"}
    fields |= {"batchaiMaxRestarts": 1, "secrets": [{"name": "TOKEN", "value": "hush-hush"}]}
    job = place.wait(place.start_ranks(script, count=2, **fields))
    printed = [line for line in place.log(job.id).decode().splitlines() if not line.startswith("[batchai]")]
    # The warning may come before a rank of the first attempt has printed.
    assert ({*printed[:-2]}, printed[-2:]) == ({"1 hush-hush-"}, ["2 hush-hush-"] * 2)
    assert (job.state, len(job.attempts)) == (ExecutionState.SUCCEEDED, 2)


def test_a_run_that_loses_its_node_continues_elsewhere_once(again_place, again_slurm, tmp_path):
    place = again_place
    id = place.start("echo up; exec sleep 1000", batchaiMaxRestarts=1)
    for count in (1, 2):
        until(lambda count=count: place.log(id).count(b"up\n") == count)
        (node,) = place.backend.nodes(id)
        again_slurm.kill(node.id)  # its processes live on: the new attempt has to make sure that they end
    job = place.wait(id)
    first, second = job.attempts
    assert (first_error(job).code, first.nodes == second.nodes) == ("JobNodeLost", False)
    until(lambda: not processes_of(tmp_path / "home"))


@pytest.mark.parametrize("again_slurm", [PREEMPTING.format(mode="cancel")], indirect=True)
def test_a_preempted_run_continues_even_if_slurm_would_cancel_it(again_place, again_slurm, tmp_path):
    place, done = on_partition(again_place, "low"), tmp_path / "done"
    id = started(place, batchaiMaxRestarts=1)
    until(lambda: place.log(id).count(b'"step": 2'))
    again_slurm.ask(*OTHER, UNTIL.format(done))
    until(lambda: place.backend.show(id).attempts)
    done.touch()
    assert place.wait(id).state is ExecutionState.SUCCEEDED
    assert said(place, id) == RESUMED
