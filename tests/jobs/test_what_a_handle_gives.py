"""What a handle gives, from a backend whose state and log the test writes itself."""

from dataclasses import replace

import pytest

from batchai_magics.errors import NotFoundError, StorageError
from batchai_magics.jobs import job_handle
from batchai_magics.jobs import job_overview as job_overview_module
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_overview import job_overview
from batchai_magics.metrics import MetricsWarning
from batchai_magics.models.states import ExecutionState
from tests.widgets.scripted_job import FAILURE, JOB, ScriptedBackend, step_line


@pytest.fixture
def backend(tmp_path):
    return ScriptedBackend(tmp_path / "job")


@pytest.fixture
def job(backend):
    return Job(backend, JOB, patterns={"score": r"score=(\d+)"})


class Clock:
    """Time that passes while somebody sleeps; at a given moment something happens."""

    def __init__(self, monkeypatch, at_s=float("inf"), then=lambda: None):
        self.now, self.at_s, self.then = 0.0, at_s, then
        monkeypatch.setattr(job_handle.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(job_handle.time, "sleep", self.sleep)

    def sleep(self, seconds):
        self.now += seconds
        if self.now >= self.at_s:
            self.then()


def test_waiting_ends_when_the_job_does(backend, job, monkeypatch):
    Clock(monkeypatch, 3.0, lambda: backend.finish(ExecutionState.FAILED, exit_code=3))
    assert job.wait(60) is job
    assert (job.is_done, job.state, job.exit_code) == (True, ExecutionState.FAILED, 3)


def test_waiting_outlasts_the_queue(backend, job, monkeypatch):
    backend.finish(ExecutionState.QUEUED)
    Clock(monkeypatch, 3.0, backend.finish)
    assert job.wait(60).is_done


def test_waiting_gives_up_after_the_time_asked_and_not_before(job, monkeypatch):
    clock = Clock(monkeypatch)
    with pytest.raises(TimeoutError, match="job resnet is still running after 2 s"):
        job.wait(2)
    assert 2 < clock.now <= 3


def test_a_job_that_ends_in_time_is_no_error_however_late_that_is_seen(backend, job, monkeypatch):
    Clock(monkeypatch, 0.01, backend.finish)
    assert job.wait(0) is job


def test_records_are_those_of_the_formats_and_of_the_users_patterns(backend, job):
    backend.write("score=7\n" + step_line(3))
    assert [(r.name, r.value, r.step) for r in job.records()][:2] == [
        ("score", 7, None),
        ("images_per_sec", 100, 3),
    ]


def test_a_file_below_a_folder_keeps_its_folder(backend, job, tmp_path):
    (backend.folder / "a").mkdir()
    backend.write("inner", "a/b.txt")
    assert job.download("a/b.txt", tmp_path) == tmp_path / "a" / "b.txt"


def test_a_missing_file_is_named_with_those_that_are(backend, job, tmp_path):
    with pytest.raises(NotFoundError, match="has no file 'x'") as caught:
        job.download("x", tmp_path)
    assert (caught.value.code, caught.value.hint) == ("FileNotFound", "Available: stdout.txt.")
    (backend.folder / "stdout.txt").unlink()
    with pytest.raises(NotFoundError) as caught:
        job.download("x", tmp_path)
    assert caught.value.hint == "The directory is empty."


@pytest.mark.slow
def test_the_error_of_a_failed_job_has_the_last_words_of_the_rank_that_failed_first(backend, job):
    for rank in (0, 2):
        backend.write(f"words of {rank}\n", "stderr.txt", rank=rank)
    assert job.error is None
    backend.finish(ExecutionState.FAILED, **FAILURE)
    assert job_overview(job).error == job.error
    assert (job.error.rank, job.error.lines) == (2, ("words of 2",))


@pytest.mark.slow
def test_the_card_has_so_many_last_lines_and_the_numbers(backend, job):
    backend.write("".join(f"{number}\n" for number in range(50)) + step_line(3))
    card = job_overview(job)
    assert card.lines[-2:] == ("49", step_line(3).rstrip())
    assert (len(card.lines), card.metrics["steps"]) == (job_overview_module.LAST_LINES, "3")


def test_metrics_warn_of_numbers_that_were_not_read(backend, job):
    backend.write("".join(f"after {i} rounds: {27 - i / 3:.2f} dB\n" for i in range(5)))
    with pytest.warns(MetricsWarning, match="not recognised as metrics"):
        assert job.metrics().empty


def test_metrics_warn_of_a_match_that_is_no_number(backend):
    backend.write("score=high\nscore=7\nscore=low\n")
    job = Job(backend, JOB, patterns={"score": r"score=(\w+)"})
    with pytest.warns(MetricsWarning) as caught:
        assert list(job.metrics(tidy=True)["value"]) == [7]
    assert [str(warning.message) for warning in caught] == [
        '--metric score matched "high", which is not a number, in the line: score=high'
    ]


@pytest.mark.parametrize("path", ["../stdout.txt", "a/../../stdout.txt", "/etc/passwd"])
def test_a_download_stays_in_its_folder(backend, job, tmp_path, path):
    backend.write("x")
    with pytest.raises(StorageError, match="is outside"):
        job.download(path, tmp_path / "here")


def test_the_summary_knows_which_node_a_rank_ran_on(backend, job):
    for rank in (0, 2):
        backend.write("".join(step_line(step, rank, 100.0 / (rank + 1)) for step in range(10, 200, 10)))
    backend.finish(ExecutionState.FAILED, **FAILURE)
    assert set(job.summary().per_node) == {"node-0", "node-1"}


def describe(backend, process_count):
    """Has the job describe its number of processes, or none."""
    spec = backend.job.spec
    settings = spec.settings.model_copy(update={"process_count": process_count})
    spec = spec.model_copy(update={spec.toolkit.field: settings})
    backend.job = replace(backend.job, spec=spec)


def test_the_number_of_processes_that_a_job_describes_needs_no_look_at_its_cluster(backend, job):
    describe(backend, 3)
    asked, show = [], backend.show
    backend.show = lambda id: asked.append(id) or show(id)
    assert (job.process_count(), asked) == (3, [JOB])


def test_a_job_that_describes_no_number_has_a_process_for_each_gpu(backend, job):
    describe(backend, None)
    assert job.process_count() == 4  # on two nodes of Standard_NC12


def test_a_job_that_uses_some_gpus_of_its_nodes_has_a_process_for_each_of_those(backend, job):
    describe(backend, None)
    spec = backend.job.spec.model_copy(update={"batchai_gpus": 1})
    backend.job = replace(backend.job, spec=spec)
    assert job.process_count() == 2
