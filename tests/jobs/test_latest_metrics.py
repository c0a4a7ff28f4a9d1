"""The latest metrics of a job, from the ends of its logs."""

import json

import pytest

from batchai_magics.jobs.latest_metrics import latest_metrics, unread_numbers
from batchai_magics.launch.plan import TRAINER_LOG
from tests.widgets.scripted_job import ScriptedBackend, resource


def lines(*values):
    return "".join(json.dumps(each) + "\n" for each in values)


@pytest.fixture
def backend(tmp_path):
    return ScriptedBackend(tmp_path)


def headline(backend):
    found = latest_metrics(backend, resource()).headline
    return found and (found.summary.label, found.summary.last_step, found.summary.last)


def test_a_file_of_a_trainer_is_ahead_of_what_is_printed(backend):
    backend.write(lines({"step": 3, "loss": 0.5}))
    backend.write(lines({"step": 3, "loss": 0.5}, {"step": 5, "loss": 0.25}), file=TRAINER_LOG)
    assert headline(backend) == ("loss", 5, 0.25)


def test_a_number_in_both_is_the_printed_one(backend):
    backend.write(lines({"step": 3, "loss": 0.5}))
    backend.write(lines({"step": 3, "loss": 0.75}), file=TRAINER_LOG)
    assert headline(backend) == ("loss", 3, 0.5)


def test_stderr_counts_if_stdout_has_no_metrics(backend):
    backend.write("started\n")
    backend.write(lines({"step": 1, "loss": 0.5}), file="stderr.txt")
    assert headline(backend) == ("loss", 1, 0.5)


def test_a_job_that_printed_nothing_has_none(backend):
    assert headline(backend) is None


def test_numbers_that_no_format_reads_are_told_with_an_option(backend):
    backend.write("".join(f"the wobble was {i}.5 today\n" for i in range(5)))
    (notice,) = unread_numbers(backend, resource())
    assert "--metric 'wobble=" in notice


def test_a_job_that_printed_nothing_has_no_unread_numbers(backend):
    assert unread_numbers(backend, resource()) == ()
