"""Hosts whose clocks are ten minutes apart: the shared file system's clock says how old something is."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.service.file_repository import READ_INTERVAL_S, FileClock
from batchai_magics.backends.service.runner import Run, RunStatus
from batchai_magics.backends.slurm.client import TIMEOUT_S
from batchai_magics.backends.slurm.node.run_files import AttemptNote, AttemptStart, RunFiles, SlurmSubmission
from batchai_magics.backends.slurm.queries import MAX_TTL_S, NEW_JOB_INTERVAL_S, QueryCache
from batchai_magics.backends.slurm.run_observer import STOP_TIMEOUT_S
from batchai_magics.backends.slurm.runs import Runs
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.launch.plan import GRACE_S
from batchai_magics.models.states import ExecutionState
from tests.backends.slurm.job_files import number
from tests.backends.slurm.scripted_slurm import ScriptedClient
from tests.contract.place import HOLD
from tests.world import until

OFF_S = 600.0
LOST_S = 30.0
GUID = "guid"
either_way = pytest.mark.parametrize("off_s", [-OFF_S, OFF_S], ids=["behind", "ahead"])


@contextlib.contextmanager
def clock_off(off_s: float) -> Iterator[None]:
    """Within it, the clock of this host is wrong by so much."""
    real = time.time
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: real() + off_s)
        yield


class Host:
    """A host that reconciles one job."""

    def __init__(self, home: Path, slurm: ScriptedClient) -> None:
        layout, clock = Layout(home), FileClock(home / "clock")
        self.answers = QueryCache(slurm, home / "asked", 10.0, clock)
        self.runs = Runs(layout, slurm, self.answers, SlurmSettings(home=home, lost_s=LOST_S))
        self.files = RunFiles(layout.job(GUID).root)

    def made(self) -> Run:
        """The job, created by this host just now."""
        self.files.root.mkdir(parents=True)
        self.files.bundle.write_text("{}")
        return Run(GUID, "j", time.time(), {})

    def submitted(self) -> Run:
        """The job, created by this host just now and submitted as number 1."""
        job = self.made()
        self.files.note_submission(1, SlurmSubmission("1", time.time()))
        return job

    def passes(self, seconds: float) -> None:
        """Ages all files of the job by this many seconds."""
        for file in self.files.root.iterdir():
            written = file.stat().st_mtime - seconds
            os.utime(file, (written, written))


def error_of(status: RunStatus) -> str:
    return status.result.errors[0]["code"] if status.result else ""


def until_heard(host: Host, job: Run) -> RunStatus:
    """Where a job stands when Slurm has been asked since: times of files are rounded."""
    host.passes(NEW_JOB_INTERVAL_S + 1)
    return host.runs.reconcile(job)


@pytest.fixture
def slurm_client() -> ScriptedClient:
    made = ScriptedClient()
    made.report("RUNNING")
    return made


@pytest.fixture
def other(tmp_path: Path, slurm_client: ScriptedClient) -> Host:
    """The host whose clock is off."""
    return Host(tmp_path, slurm_client)


@pytest.fixture
def here(tmp_path: Path, slurm_client: ScriptedClient) -> Host:
    """The host whose clock is right."""
    return Host(tmp_path, slurm_client)


@either_way
def test_clock_follows_the_file_system(tmp_path, off_s):
    clock = FileClock(tmp_path / "clock")
    before = time.time()
    with clock_off(off_s):
        first = clock.now()
        assert before - 1 < first < before + OFF_S / 2
        assert clock.now() >= first


def test_files_written_by_another_host_are_never_in_the_future(tmp_path):
    clock = FileClock(tmp_path / "clock", monotonic=lambda: 9.0)  # it stands still while the machine sleeps
    clock.read()
    (tmp_path / "other").touch()
    until(lambda: (tmp_path / "other").touch() or (tmp_path / "other").stat().st_mtime > clock.now())
    assert clock.age_s((tmp_path / "other").stat().st_mtime) >= 0


def test_the_file_system_is_asked_again_after_half_a_minute(tmp_path):
    now = 9.0
    clock = FileClock(tmp_path / "clock", monotonic=lambda: now)
    clock.now()
    os.utime(tmp_path / "clock", (0, 0))
    clock.now()
    assert (tmp_path / "clock").stat().st_mtime == 0
    now += READ_INTERVAL_S + 1
    clock.now()
    assert (tmp_path / "clock").stat().st_mtime > 0


def test_without_a_writable_folder_the_clock_of_the_host_is_used(tmp_path):
    with clock_off(OFF_S):
        assert FileClock(tmp_path / "missing" / "clock").now() > time.time() - 1


# what Slurm has said


@either_way
def test_an_answer_that_another_host_got_just_now_is_good(here, other, slurm_client, off_s):
    with clock_off(off_s):
        other.answers.jobs()
    here.answers.jobs()
    assert slurm_client.asked == 1


@either_way
def test_an_old_answer_of_any_host_is_requested_again(here, other, slurm_client, off_s):
    with clock_off(off_s):
        other.answers.jobs()
    (file,) = (each for each in here.answers.files if each.exists())
    *times, lines = json.loads(file.read_text())
    file.write_text(json.dumps([*(moment - MAX_TTL_S for moment in times), lines]))
    here.answers.jobs()
    assert slurm_client.asked == 2


@either_way
def test_the_state_in_slurm_counts_for_jobs_of_any_host(here, other, slurm_client, off_s):
    with clock_off(off_s):
        job = other.submitted()
    slurm_client.report("CANCELLED")
    assert error_of(until_heard(here, job)) == "JobTerminated"


@either_way
def test_answers_of_slurm_before_a_submission_do_not_count(here, other, slurm_client, off_s):
    slurm_client.lines = {}
    here.answers.jobs()
    with clock_off(off_s):
        job = other.submitted()
    slurm_client.report("RUNNING")
    here.runs.reconcile(job)
    assert here.files.engine_report(1) is None


# where a job stands


@either_way
def test_a_job_that_another_host_makes_just_now_is_not_lost(here, other, off_s):
    with clock_off(off_s):
        job = other.made()
    assert here.runs.reconcile(job).is_open


@either_way
def test_a_job_whose_submitter_died_is_lost_in_time(here, other, slurm_client, off_s):
    slurm_client.lines = {}
    with clock_off(off_s):
        job = other.made()
    here.passes(LOST_S + 1)
    assert here.runs.reconcile(job).is_open  # a slow sbatch may be at work
    here.passes(TIMEOUT_S)
    assert error_of(here.runs.reconcile(job)) == "JobLaunchFailed"


@either_way
def test_a_job_stopped_by_another_host_gets_its_grace_time(here, other, slurm_client, off_s):
    job = other.submitted()
    with clock_off(off_s):
        other.files.ask_to_stop(1, AttemptNote("terminate", time.time()))
    here.runs.reconcile(job)
    assert slurm_client.cancelled == []
    here.passes(STOP_TIMEOUT_S + GRACE_S + 1)
    here.runs.reconcile(job)
    assert slurm_client.cancelled == ["1"]


@either_way
def test_a_job_that_left_no_word_is_lost_in_time_and_not_before(here, other, slurm_client, off_s):
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
    here, other, slurm_client, off_s
):
    job = other.submitted()
    with clock_off(off_s):
        other.files.note_attempt_start(1, AttemptStart("1", ("n1",), time.time()))
    here.passes(60)
    slurm_client.report("PENDING")
    assert here.runs.reconcile(job).state is ExecutionState.QUEUED


@either_way
def test_a_job_that_has_just_begun_runs_whatever_its_nodes_clock_says(here, other, slurm_client, off_s):
    job = other.submitted()
    slurm_client.report("PENDING")
    until_heard(here, job)
    with clock_off(off_s):
        other.files.note_attempt_start(1, AttemptStart("1", ("n1",), time.time()))
    assert here.runs.reconcile(job).state is ExecutionState.RUNNING


@pytest.mark.slow
def test_jobs_run_and_are_cancelled_from_a_host_whose_clock_is_off(place, slurm):
    with clock_off(OFF_S):
        assert place.run("echo up").state is ExecutionState.SUCCEEDED
        held = place.start(HOLD, "held", nodeCount=2)
        place.is_up(held)
        waiting = place.start(name="waiting")
        slurm.ask("scancel", number(place, waiting))
        assert place.wait(waiting).is_cancelled
        place.backend.delete(held)
