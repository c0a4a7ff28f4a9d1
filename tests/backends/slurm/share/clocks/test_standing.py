"""Where a job stands on hosts whose clocks are ten minutes apart."""

from __future__ import annotations

import time

import pytest

from batchai_magics.backends.service.runner import Run, RunStatus
from batchai_magics.backends.slurm.client import TIMEOUT_S
from batchai_magics.backends.slurm.node.run_files import AttemptNote, AttemptStart
from batchai_magics.backends.slurm.queries import NEW_JOB_INTERVAL_S
from batchai_magics.backends.slurm.runs import STOP_TIMEOUT_S
from batchai_magics.launch.plan import GRACE_S
from batchai_magics.models.states import ExecutionState
from tests.backends.slurm.job_files import number
from tests.backends.slurm.real_slurm import RealSlurm
from tests.backends.slurm.scripted_slurm import ScriptedClient
from tests.backends.slurm.share.clocks.hosts import (
    LOST_S,
    OFF_S,
    Host,
    clock_off,
    either_way,
    error_of,
)
from tests.contract.place import HOLD, Place


@either_way
def test_a_job_that_another_host_makes_just_now_is_not_lost(here: Host, other: Host, off_s: float) -> None:
    with clock_off(off_s):
        job = other.made()
    assert here.runs.reconcile(job).is_open


@either_way
def test_a_job_whose_submitter_died_is_lost_in_time(
    here: Host, other: Host, slurm_client: ScriptedClient, off_s: float
) -> None:
    slurm_client.lines = {}
    with clock_off(off_s):
        job = other.made()
    here.passes(LOST_S + 1)
    assert here.runs.reconcile(job).is_open  # a slow sbatch may be at work
    here.passes(TIMEOUT_S)
    assert error_of(here.runs.reconcile(job)) == "JobLaunchFailed"


@either_way
def test_a_job_that_another_host_has_told_to_stop_has_its_time_for_that(
    here: Host, other: Host, slurm_client: ScriptedClient, off_s: float
) -> None:
    job = other.submitted()
    with clock_off(off_s):
        other.files.ask_to_stop(1, AttemptNote("terminate", time.time()))
    here.runs.reconcile(job)
    assert slurm_client.cancelled == []
    here.passes(STOP_TIMEOUT_S + GRACE_S + 1)
    here.runs.reconcile(job)
    assert slurm_client.cancelled == ["1"]


@either_way
def test_a_job_that_left_no_word_is_lost_in_time_and_not_before(
    here: Host, other: Host, slurm_client: ScriptedClient, off_s: float
) -> None:
    job = other.submitted()
    other.files.note_attempt_start(1, AttemptStart("1", ("n1",), time.time()))
    slurm_client.report("NODE_FAIL")
    with clock_off(off_s):
        other.files.note_engine_report(1, AttemptNote("NODE_FAIL", time.time()))
    assert here.runs.reconcile(job).is_open
    here.passes(LOST_S + 1)
    assert error_of(here.runs.reconcile(job)) == "JobNodeLost"


@either_way
def test_a_job_that_slurm_queues_again_is_queued_whatever_its_nodes_clock_says(
    here: Host, other: Host, slurm_client: ScriptedClient, off_s: float
) -> None:
    job = other.submitted()
    with clock_off(off_s):
        other.files.note_attempt_start(1, AttemptStart("1", ("n1",), time.time()))
    here.passes(60)
    slurm_client.report("PENDING")
    assert here.runs.reconcile(job).state is ExecutionState.QUEUED


@either_way
def test_a_job_that_has_just_begun_runs_whatever_its_nodes_clock_says(
    here: Host, other: Host, slurm_client: ScriptedClient, off_s: float
) -> None:
    job = other.submitted()
    slurm_client.report("PENDING")
    until_heard(here, job)
    with clock_off(off_s):
        other.files.note_attempt_start(1, AttemptStart("1", ("n1",), time.time()))
    assert here.runs.reconcile(job).state is ExecutionState.RUNNING


def until_heard(host: Host, job: Run) -> RunStatus:
    """Where a job stands when Slurm has been asked since: times of files are rounded."""
    host.passes(NEW_JOB_INTERVAL_S + 1)
    return host.runs.reconcile(job)


@pytest.mark.slow
def test_jobs_run_and_are_cancelled_from_a_host_whose_clock_is_off(place: Place, slurm: RealSlurm) -> None:
    with clock_off(OFF_S):
        assert place.run("echo up").state is ExecutionState.SUCCEEDED
        held = place.start(HOLD, "held", nodeCount=2)
        place.is_up(held)
        waiting = place.start(name="waiting")
        slurm.ask("scancel", number(place, waiting))
        assert place.wait(waiting).is_cancelled
        place.backend.delete(held)
