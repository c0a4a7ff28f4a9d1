"""What is made of a run of which Slurm and its files say different things."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import Predecessor, write_predecessors
from batchai_magics.backends.node.outcome import failed_with
from batchai_magics.backends.service.file_repository import FileClock
from batchai_magics.backends.service.repository import AFTER
from batchai_magics.backends.service.runner import Run
from batchai_magics.backends.slurm.client import TIMEOUT_S, SlurmClient
from batchai_magics.backends.slurm.clusters import Placement
from batchai_magics.backends.slurm.node.run_files import AttemptStart, RunFiles, SlurmSubmission
from batchai_magics.backends.slurm.parse import SlurmJob
from batchai_magics.backends.slurm.queries import NEW_JOB_INTERVAL_S, QueryCache
from batchai_magics.backends.slurm.runs import Runs
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.errors import NotFoundError
from batchai_magics.launch.outcome import Outcome
from tests.backends.slurm.scripted_slurm import ScriptedClient

FAILED = failed_with("JobFailed", "it failed")._replace(ended=1.0)
PLACEMENT = Placement(excluded=("n9",), size=2)
MORE = {"node_count": 1, "partition": "p", "minutes": 5, "niceness": 0, "options": "", "python": "python3"}


@pytest.fixture
def slurm() -> ScriptedClient:
    return ScriptedClient()


@pytest.fixture
def job() -> Run:
    return Run("guid", "j", time.time(), {**MORE, AFTER: []})


@pytest.fixture
def runs(slurm: ScriptedClient, tmp_path: Path) -> Runs:
    layout = Layout(tmp_path)
    layout.job("guid").root.mkdir(parents=True)
    settings = SlurmSettings(home=tmp_path, look_s=0.0, lost_s=0.0)
    return Runs(layout, slurm, opened(slurm, tmp_path), settings)


def opened(slurm: SlurmClient, folder: Path) -> QueryCache:
    return QueryCache(slurm, folder / "asked", 0.0, FileClock(folder / "clock"))


def test_of_two_who_submit_an_attempt_the_second_takes_its_job_back(runs, slurm, job):
    runs.submit(job, PLACEMENT)
    assert slurm.cancelled == []
    runs.submit(job, PLACEMENT)
    assert slurm.cancelled == ["2"]
    assert runs.observer.files("guid").submission(1).slurm_job == "1"


def test_a_job_whose_number_cannot_be_noted_is_ended(runs, slurm, job):
    def break_the_folder() -> None:
        shutil.rmtree(runs.observer.files("guid").root)
        runs.observer.files("guid").root.touch()

    slurm.meanwhile = break_the_folder
    with pytest.raises(OSError, match="guid"):
        runs.submit(job, PLACEMENT)
    assert slurm.cancelled == ["1"]


def note_submitted(runs: Runs, *, ago_s: float = 1.0) -> None:
    runs.observer.files("guid").note_submission(1, SlurmSubmission("1", time.time()))
    age(runs, "submission", ago_s)


def age(of: Runs | RunFiles, kind: str, ago_s: float) -> None:
    """Has the file system say that the files of a kind were written so long ago."""
    files = of if isinstance(of, RunFiles) else of.observer.files("guid")
    for file in files.root.glob(f"{kind}-*"):
        os.utime(file, times=(time.time() - ago_s,) * 2)


def test_another_job_that_has_the_number_is_not_this_one(runs, slurm, job):
    note_submitted(runs)
    slurm.report("RUNNING")
    assert runs.reconcile(job).is_open
    slurm.report("RUNNING", comment="another")
    assert runs.reconcile(job).result is not None


def test_a_job_that_failed_before_its_script_wrote_anything_shows_that_the_home_is_not_shared(
    runs, slurm, job, tmp_path
):
    patient = Runs(Layout(tmp_path), slurm, opened(slurm, tmp_path), SlurmSettings(home=tmp_path))
    note_submitted(runs)
    slurm.lines = {"1": SlurmJob("1", "FAILED", "JobLaunchFailure", "N/A", "n[07-9,12]", "guid")}
    (error,) = patient.reconcile(job).result.errors
    assert error["code"] == "HomeNotShared"
    test = f"`srun --partition=p --nodelist=n07 ls -d {runs.observer.files('guid').script}`"
    for words in ("on n07", f"nothing to {tmp_path}", "slurm.home", test):
        assert words in error["message"]


@pytest.mark.parametrize(("name", "is_ended"), [("batch.log", True), ("begun-1.json", False)])
def test_a_job_whose_script_has_written_something_sees_the_home(runs, slurm, job, tmp_path, name, is_ended):
    patient = Runs(Layout(tmp_path), slurm, opened(slurm, tmp_path), SlurmSettings(home=tmp_path))
    note_submitted(runs)
    begun = AttemptStart("1", ("n1",), 0.0)._asdict()
    (runs.observer.files("guid").root / name).write_text(
        json.dumps(begun) if "begun" in name else "no such python"
    )
    slurm.report("FAILED")
    end = patient.reconcile(job).result
    assert (end is not None) is is_ended
    if end:
        assert end.errors[0]["code"] == "JobSupervisorLost"
        assert "no such python" in end.errors[0]["message"]


def test_slurm_is_not_asked_about_a_job_that_it_has_just_got(runs, slurm, job, tmp_path):
    answers = QueryCache(slurm, tmp_path / "asked", 60.0, FileClock(tmp_path / "clock"))
    unhurried = Runs(Layout(tmp_path), slurm, answers, SlurmSettings(home=tmp_path))
    slurm.report("PENDING")
    note_submitted(runs, ago_s=-60)  # it stays just submitted, however long this takes
    assert unhurried.reconcile(job).waiting == ""
    assert not [*(tmp_path / "asked").glob("*")]
    age(runs, "submission", NEW_JOB_INTERVAL_S + 1)
    assert unhurried.reconcile(job).waiting == "too few of its nodes are free"


@pytest.mark.parametrize(
    ("state", "reason", "is_asked"),
    [
        ("PENDING", "None", True),
        ("RUNNING", "None", True),
        ("PENDING", "Priority", False),
        ("CONFIGURING", "None", False),
    ],
)
def test_slurm_is_asked_sooner_again_only_about_a_job_that_is_to_begin_now(
    runs, slurm, job, tmp_path, state, reason, is_asked
):
    answers = QueryCache(slurm, tmp_path / "asked", 60.0, FileClock(tmp_path / "clock"))
    unhurried = Runs(Layout(tmp_path), slurm, answers, SlurmSettings(home=tmp_path))
    slurm.lines = {"1": SlurmJob("1", state, reason, "N/A", "", "guid")}
    note_submitted(runs, ago_s=8)
    unhurried.reconcile(job)
    (file,) = (tmp_path / "asked").glob("jobs-*.json")
    *times, lines = json.loads(file.read_text())
    file.write_text(json.dumps([*(moment - 5 for moment in times), lines]))
    slurm.report("COMPLETED")
    assert (unhurried.reconcile(job).result is not None) is is_asked


def test_job_whose_submitter_died_is_found_in_slurm_or_has_failed(runs, slurm, job):
    slurm.report("RUNNING")
    job = job._replace(created=job.created - 1)  # the clock of the file system is rounded down
    assert runs.reconcile(job).is_open
    assert runs.observer.files("guid").submission(1).slurm_job == "1"
    shutil.rmtree(runs.observer.files("guid").root)
    runs.observer.files("guid").root.mkdir()
    slurm.report("RUNNING", comment="another")
    (error,) = runs.reconcile(job._replace(created=job.created - TIMEOUT_S - 1)).result.errors
    assert error["code"] == "JobLaunchFailed"


def follow(runs: Runs, *, must_succeed: bool = True) -> RunFiles:
    """Has the job start after one whose Slurm job is 7; returns the files of that."""
    files = RunFiles(runs.observer.files("guid").root.with_name("first"))
    files.root.mkdir()
    files.note_submission(1, SlurmSubmission("7", time.time()))
    age(files, "submission", 1.0)
    write_predecessors(runs.observer.files("guid"), [Predecessor("first", "first", must_succeed)])
    return files


def submitted_behind_a_running_one(runs: Runs, slurm: ScriptedClient, job: Run) -> RunFiles:
    """Submits a job after one that runs; returns the files of the latter."""
    files = follow(runs)
    slurm.lines = {"7": SlurmJob("7", "RUNNING", "None", "N/A", "", "first")}
    runs.submit(job, PLACEMENT)
    age(runs, "submission", 1.0)
    return files


def test_slurm_is_not_asked_for_what_has_ended_and_may_be_forgotten(runs, slurm, job):
    follow(runs).note_end(Outcome(0, ended=1.0))
    runs.submit(job, PLACEMENT)
    (options,) = slurm.submitted
    assert not any("dep" in word for word in options)


def test_a_job_whose_predecessor_has_failed_is_not_submitted(runs, slurm, job):
    follow(runs).note_end(FAILED)
    runs.submit(job, PLACEMENT)
    assert slurm.submitted == []
    assert runs.observer.files("guid").outcome.errors[0]["code"] == "DependencyFailed"


def test_a_job_whose_predecessor_is_deleted_while_it_is_prepared_is_refused(runs, slurm, job):
    shutil.rmtree(follow(runs).root)
    with pytest.raises(NotFoundError, match="after first: it was deleted"):
        runs.submit(job, PLACEMENT)
    with pytest.raises(NotFoundError):
        runs.submit_array([job, job], PLACEMENT, limit=0, after="")
    assert slurm.submitted == []


def test_the_state_of_a_predecessor_counts_and_not_what_slurm_says_of_its_script(runs, slurm, job):
    files = submitted_behind_a_running_one(runs, slurm, job)
    slurm.lines = {
        "7": SlurmJob("7", "COMPLETED", "None", "N/A", "", "first"),
        "1": SlurmJob("1", "PENDING", "Resources", "N/A", "", "guid"),
    }
    files.note_end(FAILED)
    assert runs.observer.statuses([job])[0].result.errors[0]["code"] == "DependencyFailed"
    assert runs.observer.files("guid").outcome is None  # reading writes nothing
    runs.record_due()
    assert runs.observer.files("guid").outcome.errors[0]["code"] == "DependencyFailed"
    assert slurm.cancelled == ["1"]


def test_a_job_ends_with_its_predecessor_also_while_slurm_does_not_take_it_back(runs, slurm, job):
    submitted_behind_a_running_one(runs, slurm, job).note_end(FAILED)
    slurm.is_down = True
    runs.observer.statuses([job])
    runs.record_due()
    assert runs.observer.files("guid").outcome.errors[0]["code"] == "DependencyFailed"


def test_a_predecessor_that_could_not_report_its_end_is_recorded_when_only_its_successor_is_read(
    runs, slurm, job
):
    files = follow(runs)
    slurm.lines = {"7": SlurmJob("7", "RUNNING", "None", "N/A", "", "first")}
    runs.submit(job, PLACEMENT)
    slurm.lines = {"7": SlurmJob("7", "OUT_OF_MEMORY", "None", "N/A", "", "first")}
    for _ in range(3):  # a report, an end, and what follows from it
        runs.observer.statuses([job])
        runs.record_due()
    assert files.outcome.errors[0]["code"] == "JobOutOfMemory"
    assert runs.observer.files("guid").outcome.errors[0]["code"] == "DependencyFailed"
