"""Hosts whose clocks are ten minutes apart: the shared file system's clock says how old something is."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchai_magics.backends.folders.file_clock import READ_AGAIN_S, FileClock
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.machines.here import Here
from batchai_magics.backends.slurm.answers import LONGEST_S, Answers
from batchai_magics.backends.slurm.node.run_files import Begun, Over, RunFiles, Stop, Submission
from batchai_magics.backends.slurm.records import Record
from batchai_magics.backends.slurm.runs import OVERDUE_S, Runs
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.backends.slurm.standing import Standing
from batchai_magics.backends.slurm.talk import PATIENCE_S, Slurm
from batchai_magics.backends.slurm.understand import JobLine
from batchai_magics.models.states import ExecutionState
from tests.backends.slurm.jobs.test_jobs import number
from tests.backends.slurm.real_slurm import RealSlurm
from tests.contract.place import HOLD, Place
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


class Told(Slurm):
    """A Slurm that says what a test has it say, and keeps what it was told."""

    def __init__(self) -> None:
        super().__init__(Here())
        self.lines: list[JobLine] = []
        self.ended: list[str] = []
        self.asked = 0

    def jobs(self) -> dict[str, JobLine]:
        self.asked += 1
        return {line.number: line for line in self.lines}

    def end(self, number: str) -> None:
        self.ended.append(number)

    def say(self, state: str) -> None:
        """Job 7 is in this state from now on."""
        self.lines = [JobLine("7", state, "None", "N/A", "n1", GUID)]


class Host:
    """A host that looks at one job, and notes what becomes of it."""

    def __init__(self, home: Path, slurm: Told) -> None:
        layout, clock = Layout(home), FileClock(home / "clock")
        self.answers = Answers(slurm, home / "asked", 10.0, clock)
        self.runs = Runs(layout, slurm, self.answers, SlurmSettings(home=home, lost_s=LOST_S))
        self.files = RunFiles(layout.job(GUID).root)

    def made(self) -> Record:
        """The job, made by this host just now."""
        self.files.root.mkdir(parents=True)
        self.files.order.write_text("{}")
        return Record("/subscriptions/s", GUID, "{}", "", time.time())

    def submitted(self) -> Record:
        """The job, made by this host just now, and handed to Slurm as number 7."""
        job = self.made()
        self.files.note_submission(1, Submission("7", time.time()))
        return job

    def passes(self, seconds: float) -> None:
        """All that there is of the job was written so long before."""
        for file in self.files.root.iterdir():
            written = file.stat().st_mtime - seconds
            os.utime(file, (written, written))


@pytest.fixture
def told() -> Told:
    made = Told()
    made.say("RUNNING")
    return made


@pytest.fixture
def other(tmp_path: Path, told: Told) -> Host:
    """The host whose clock is off."""
    return Host(tmp_path, told)


@pytest.fixture
def here(tmp_path: Path, told: Told) -> Host:
    """The host whose clock is right."""
    return Host(tmp_path, told)


def error_of(standing: Standing) -> str:
    return standing.end.outcome.errors[0]["code"] if standing.end else ""


# the clock


@either_way
def test_the_clock_is_that_of_the_files(tmp_path: Path, off_s: float) -> None:
    clock = FileClock(tmp_path / "clock")
    before = time.time()
    with clock_off(off_s):
        first = clock.now()
        assert before - 1 < first < before + OFF_S / 2
        assert clock.now() >= first


def test_what_another_host_wrote_a_moment_ago_is_never_of_the_future(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FileClock(tmp_path / "clock")
    clock.read()
    asleep = time.monotonic()  # of a machine that sleeps, this clock stands still
    monkeypatch.setattr(time, "monotonic", lambda: asleep)
    (tmp_path / "other").touch()
    until(lambda: (tmp_path / "other").touch() or (tmp_path / "other").stat().st_mtime > clock.now())
    assert clock.age_s((tmp_path / "other").stat().st_mtime) >= 0


def test_the_file_system_is_asked_again_after_half_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FileClock(tmp_path / "clock")
    clock.now()
    os.utime(tmp_path / "clock", (0, 0))
    clock.now()
    assert (tmp_path / "clock").stat().st_mtime == 0
    later = time.monotonic() + READ_AGAIN_S + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    clock.now()
    assert (tmp_path / "clock").stat().st_mtime > 0


def test_where_nothing_can_be_written_the_hosts_own_clock_has_to_do(tmp_path: Path) -> None:
    with clock_off(OFF_S):
        assert FileClock(tmp_path / "missing" / "clock").now() > time.time() - 1


# what Slurm has said


@either_way
def test_an_answer_that_another_host_got_just_now_is_good(
    here: Host, other: Host, told: Told, off_s: float
) -> None:
    with clock_off(off_s):
        other.answers.jobs()
    here.answers.jobs()
    assert told.asked == 1


@either_way
def test_an_old_answer_is_not_kept_whoever_got_it(here: Host, other: Host, told: Told, off_s: float) -> None:
    with clock_off(off_s):
        other.answers.jobs()
    (file,) = (each for each in here.answers.files if each.exists())
    *times, lines = json.loads(file.read_text())
    file.write_text(json.dumps([*(moment - LONGEST_S for moment in times), lines]))
    here.answers.jobs()
    assert told.asked == 2


@either_way
def test_what_slurm_says_of_a_job_is_heard_whoever_submitted_it(
    here: Host, other: Host, told: Told, off_s: float
) -> None:
    with clock_off(off_s):
        job = other.submitted()
    told.say("CANCELLED")
    assert error_of(until_heard(here, job)) == "JobTerminated"


@either_way
def test_what_slurm_said_before_a_job_was_submitted_is_nothing_about_it(
    here: Host, other: Host, told: Told, off_s: float
) -> None:
    told.lines = []
    here.answers.jobs()
    with clock_off(off_s):
        job = other.submitted()
    told.say("RUNNING")
    here.runs.settle(job)
    assert here.files.over(1) is None


# where a job stands


@either_way
def test_a_job_that_another_host_makes_just_now_is_not_lost(here: Host, other: Host, off_s: float) -> None:
    with clock_off(off_s):
        job = other.made()
    assert here.runs.settle(job).is_open


@either_way
def test_a_job_whose_submitter_died_is_lost_in_time(
    here: Host, other: Host, told: Told, off_s: float
) -> None:
    told.lines = []
    with clock_off(off_s):
        job = other.made()
    here.passes(LOST_S + 1)
    assert here.runs.settle(job).is_open  # a slow sbatch may be at work
    here.passes(PATIENCE_S)
    assert error_of(here.runs.settle(job)) == "JobLaunchFailed"


@either_way
def test_a_job_that_another_host_has_told_to_stop_has_its_time_for_that(
    here: Host, other: Host, told: Told, off_s: float
) -> None:
    job = other.submitted()
    with clock_off(off_s):
        other.files.ask_to_stop(1, Stop("terminate", time.time()))
    here.runs.settle(job)
    assert told.ended == []
    here.passes(OVERDUE_S + 1)
    here.runs.settle(job)
    assert told.ended == ["7"]


@either_way
def test_a_job_that_left_no_word_is_lost_in_time_and_not_before(
    here: Host, other: Host, told: Told, off_s: float
) -> None:
    job = other.submitted()
    other.files.note_begun(1, Begun("7", ("n1",), time.time()))
    told.say("NODE_FAIL")
    with clock_off(off_s):
        other.files.note_over(1, Over("NODE_FAIL", time.time()))
    assert here.runs.settle(job).is_open
    here.passes(LOST_S + 1)
    assert error_of(here.runs.settle(job)) == "JobNodeLost"


@either_way
def test_a_job_that_slurm_queues_again_is_queued_whatever_its_nodes_clock_says(
    here: Host, other: Host, told: Told, off_s: float
) -> None:
    job = other.submitted()
    with clock_off(off_s):
        other.files.note_begun(1, Begun("7", ("n1",), time.time()))
    here.passes(60)
    told.say("PENDING")
    assert here.runs.settle(job).state is ExecutionState.QUEUED


@either_way
def test_a_job_that_has_just_begun_runs_whatever_its_nodes_clock_says(
    here: Host, other: Host, told: Told, off_s: float
) -> None:
    job = other.submitted()
    told.say("PENDING")
    until_heard(here, job)
    with clock_off(off_s):
        other.files.note_begun(1, Begun("7", ("n1",), time.time()))
    assert here.runs.settle(job).state is ExecutionState.RUNNING


def until_heard(host: Host, job: Record) -> Standing:
    """Where a job stands when Slurm has been asked since: times of files are rounded."""
    host.passes(1)
    return host.runs.settle(job)


@pytest.mark.slow
@either_way
def test_jobs_run_and_are_cancelled_from_a_host_whose_clock_is_off(
    place: Place, slurm: RealSlurm, off_s: float
) -> None:
    with clock_off(off_s):
        assert place.run("echo up").state is ExecutionState.SUCCEEDED
        held = place.start(HOLD, "held", nodeCount=2)
        place.is_up(held)
        waiting = place.start(name="waiting")
        slurm.ask("scancel", number(place, waiting))
        assert place.wait(waiting).is_cancelled
        place.backend.delete(held)
