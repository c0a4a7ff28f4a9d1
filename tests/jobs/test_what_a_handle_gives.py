"""What a handle and its model give, from a backend whose state and log the test writes itself."""

import itertools
import json
import time
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from batchai_magics.cards.job_card import to_text
from batchai_magics.errors import NotFoundError, StorageError
from batchai_magics.jobs import job_overview as job_overview_module
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_model import read_model
from batchai_magics.jobs.job_overview import job_overview
from batchai_magics.launch.plan import TRAINER_LOG
from batchai_magics.metrics import MetricsWarning
from batchai_magics.metrics.reading.progress_reader import BAR_BYTES, MAX_LINES
from batchai_magics.models.states import ExecutionState
from batchai_magics.models.telemetry_records import MachineUse, RankUse, Sample, TelemetryRecord
from tests.widgets.scripted_job import FAILURE, JOB, ScriptedBackend, resource, step_line


@pytest.fixture
def job(backend):
    return Job(backend, JOB, patterns={"score": r"score=(\w+)"})


def after_looks(backend, count, then):
    """Something happens once so many have asked for the status, before they know it."""
    status, looks = backend.status, itertools.count(1)

    def counted(*given, **named):
        answer = status(*given, **named)
        if next(looks) == count:
            then()
        return answer

    backend.status = counted


def test_waiting_ends_when_the_job_does(backend, job):
    backend.finish(ExecutionState.QUEUED)
    after_looks(backend, 3, lambda: backend.finish(ExecutionState.FAILED, exit_code=3))
    assert job.wait(60) is job
    assert (job.is_done, job.state, job.exit_code) == (True, ExecutionState.FAILED, 3)


def test_waiting_times_out_after_the_given_time_and_not_before(job):
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"job resnet is still running after 0\.2 s"):
        job.wait(0.2)
    assert time.monotonic() - began > 0.2


def test_job_that_ends_in_time_is_no_timeout_even_if_noticed_late(backend, job):
    after_looks(backend, 1, backend.finish)
    assert job.wait(0) is job


def test_missing_file_error_lists_the_files(backend, job, tmp_path):
    with pytest.raises(NotFoundError, match="has no file 'x'") as caught:
        job.download("x", tmp_path)
    assert (caught.value.code, caught.value.hint) == ("FileNotFound", "Available: stdout.txt.")
    (backend.folder / "stdout.txt").unlink()
    with pytest.raises(NotFoundError) as caught:
        job.download("x", tmp_path)
    assert caught.value.hint == "The directory is empty."


@pytest.mark.slow
def test_error_of_a_failed_job_has_the_last_lines_of_the_rank_that_failed_first(backend, job):
    for rank in (0, 2):
        backend.write(f"words of {rank}\n", "stderr.txt", rank=rank)
    assert job.error is None
    backend.finish(ExecutionState.FAILED, **FAILURE)
    assert job_overview(job).error == job.error
    assert (job.error.rank, job.error.lines) == (2, ("words of 2",))


@pytest.mark.slow
def test_the_card_has_the_last_lines_and_the_metrics(backend, job):
    backend.write("".join(f"{number}\n" for number in range(50)) + step_line(3))
    card = job_overview(job)
    assert card.lines[-2:] == ("49", step_line(3).rstrip())
    assert (len(card.lines), card.metrics["steps"]) == (job_overview_module.LAST_LINES, "3")


def test_telemetry_is_the_table_of_its_samples(backend, job):
    sample = Sample(1.0, "m", (RankUse(3, 1.0, 100, 0, 0, 0.0, 0, 1),), MachineUse(2.0, 500))
    backend.telemetry = SimpleNamespace(read=lambda id: TelemetryRecord({3: "n0"}, (sample,)))
    assert job.telemetry()["node"].tolist() == ["n0", "m"]


def test_metrics_warn_of_numbers_that_were_not_read(backend, job):
    backend.write("".join(f"after {i} rounds: {27 - i / 3:.2f} dB\n" for i in range(5)))
    with pytest.warns(MetricsWarning, match="not recognised as metrics"):
        assert job.metrics().empty
    backend.write("score=7\nscore=low\n" + step_line(3))
    with pytest.warns(MetricsWarning) as caught:
        assert list(job.metrics(tidy=True)["value"])[:2] == [7, 100]
    assert [str(warning.message) for warning in caught] == [
        '--metric score matched "low", which is not a number, in the line: score=low'
    ]


def test_unread_numbers_of_the_last_line_are_reported_when_the_job_has_ended(backend, job):
    backend.write("batch size 32\nfinished loss=0.5\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert job.metrics().empty  # a series may begin with it
    assert read_model(backend, job.show()).notices == ()
    backend.finish(ExecutionState.SUCCEEDED)
    with pytest.warns(MetricsWarning, match="finished loss=0.5"):
        assert job.metrics().empty
    (notice,) = read_model(backend, job.show()).notices
    assert "finished loss=0.5" in notice


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


def test_described_process_count_needs_no_query_of_the_cluster(backend, job):
    describe(backend, 3)
    asked, show = [], backend.show
    backend.show = lambda id: asked.append(id) or show(id)
    assert (job.process_count(), asked) == (3, [JOB])


def test_the_summary_counts_processes_that_print_nothing(backend, job):
    backend.write("".join(step_line(step, 0, 100.0) for step in range(10, 200, 10)))
    describe(backend, 4)
    backend.finish(ExecutionState.SUCCEEDED)
    summary = job.summary()
    assert (summary.ranks, summary.per_process) == (4, pytest.approx(summary.steady.images_per_sec / 4))


def test_a_job_that_describes_no_number_has_a_process_for_each_gpu_that_it_uses(backend, job):
    describe(backend, None)
    assert job.process_count() == 4  # on two nodes of Standard_NC12
    spec = backend.job.spec.model_copy(update={"batchai_gpus": 1})
    backend.job = replace(backend.job, spec=spec)
    assert job.process_count() == 2


def lines(*values):
    return "".join(json.dumps(each) + "\n" for each in values)


def headline(backend):
    found = read_model(backend, resource()).metrics.headline
    return found and (found.summary.label, found.summary.last_step, found.summary.last)


def test_trainer_file_takes_precedence_over_printed_numbers(backend):
    backend.write(lines({"step": 3, "loss": 0.5}))
    backend.write(lines({"step": 3, "loss": 0.5}, {"step": 5, "loss": 0.25}), file=TRAINER_LOG)
    assert headline(backend) == ("loss", 5, 0.25)


def test_a_printed_number_replaces_that_of_a_trainer_file(backend):
    backend.write(lines({"step": 3, "loss": 0.5}))
    backend.write(lines({"step": 3, "loss": 0.75}), file=TRAINER_LOG)
    assert headline(backend) == ("loss", 3, 0.5)


def test_unread_numbers_are_reported_unless_a_pattern_reads_them(backend):
    assert read_model(backend, resource()).notices == ()
    backend.write("".join(f"step {i} loss=0.{i}\na psnr of {i}.5 was seen\n" for i in range(5)))
    model = read_model(backend, resource())
    (notice,) = model.notices
    assert "--metric 'psnr=" in notice
    assert list(model.metrics) == ["loss"]
    assert read_model(backend, resource(), {"quality": r"psnr of ([\d.]+)"}).notices == ()
    notices = read_model(backend, resource(), {"psnr": "psnr (\\w+)"}).notices
    assert 'matched "of", which is not a number' in notices[0]


def test_progress_is_read_from_the_joined_lines_of_the_lowest_rank(backend):
    for rank, text in ((1, "st"), (0, "step 1/40\n"), (1, "ep 20/40\n")):
        backend.write(text, rank=rank)
    assert read_model(backend, resource()).progress.words == "step 1/40"
    backend.write("hello\nstep 3", rank=0)
    backend.write("step 30/40\n", rank=1)
    backend.write("/40\n", rank=0)
    assert read_model(backend, resource()).progress.words == "step 3/40"


@pytest.mark.parametrize(("size", "most"), [(2, MAX_LINES), (BAR_BYTES // 2, 2), (BAR_BYTES // 2 - 1, 3)])
def test_progress_is_sought_in_the_newest_lines_and_bytes_of_ranks(backend, size, most):
    backend.write("step 1/40\n", rank=0)
    for number in range(1, most):
        backend.write("x" * (size - 1) + "\n", rank=number % 2)
    assert read_model(backend, resource()).progress.words == "step 1/40"
    backend.write("x" * (size - 1) + "\n", rank=most % 2)
    assert read_model(backend, resource()).progress is None


def test_each_log_is_read_once(backend):
    backend.write("the wobble was 1.5 today\n")
    reads, read = [], backend.read
    backend.read = lambda file, *place: (reads.append((file.path, *place)), read(file, *place))[1]
    model = read_model(backend, resource())
    assert not model.metrics
    _ = model.notices
    assert len(reads) == len(set(reads))


class WithoutLogs(ScriptedBackend):
    def files(self, *_args, **_options):
        pytest.fail("there is no log to read before a job has started")

    read = tail = files


def test_no_log_is_read_of_a_job_that_has_not_started(tmp_path: Path) -> None:
    backend = WithoutLogs(tmp_path)
    backend.job = resource(ExecutionState.QUEUED)
    assert "queued" in to_text(job_overview(Job(backend, JOB)))
