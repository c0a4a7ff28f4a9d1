"""The model of a job as it is now, read from the ends of its logs."""

import json

import pytest

from batchai_magics.jobs.job_model import read_model
from batchai_magics.launch.plan import TRAINER_LOG
from tests.widgets.scripted_job import ScriptedBackend, resource


def lines(*values):
    return "".join(json.dumps(each) + "\n" for each in values)


@pytest.fixture
def backend(tmp_path):
    return ScriptedBackend(tmp_path)


def headline(backend):
    found = read_model(backend, resource()).metrics.headline
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
    (notice,) = read_model(backend, resource()).notices
    assert "--metric 'wobble=" in notice


def test_numbers_that_are_not_read_beside_metrics_are_told_too(backend):
    backend.write("".join(f"step {i} loss=0.{i}\na psnr of {i}.5 was seen\n" for i in range(5)))
    model = read_model(backend, resource())
    (notice,) = model.notices
    assert "--metric 'psnr=" in notice
    assert list(model.metrics) == ["loss"]


def test_a_match_that_is_no_number_is_told_beside_the_metrics(backend):
    backend.write("step 1 loss=0.5\npsnr high\n")
    model = read_model(backend, resource(), {"psnr": "psnr (\\w+)"})
    (notice,) = model.notices
    assert "psnr" in notice
    assert list(model.metrics) == ["loss"]


def test_lines_that_the_users_pattern_reads_are_not_told_as_unread(backend):
    backend.write("".join(f"a psnr of 2{number}.5 was seen\n" for number in range(5)))
    patterns = {"quality": r"psnr of ([\d.]+)"}
    assert [len(read_model(backend, resource(), own).notices) for own in ({}, patterns)] == [1, 0]


def test_a_job_that_printed_nothing_has_no_unread_numbers(backend):
    assert read_model(backend, resource()).notices == ()


def test_each_log_is_read_once(backend):
    backend.write("the wobble was 1.5 today\n")
    reads, read = [], backend.read
    backend.read = lambda file, *place: (reads.append((file.path, *place)), read(file, *place))[1]
    model = read_model(backend, resource())
    assert not model.metrics
    _ = model.notices
    assert len(reads) == len(set(reads))
