"""The program that tries a real workspace reads for nothing, spends what it may, and tells no names."""

from __future__ import annotations

import pytest

from benchmarks.azureml_live import Report, read, run_jobs
from tests.azureml.faults import refusal
from tests.azureml.workspace import ROOT


@pytest.fixture
def report(azure) -> Report:
    return Report(azure.place)


def test_reading_changes_nothing_and_reports_every_step(report, azure, backend, settings):
    read(report, backend, settings)
    assert report.failures == 0, report.lines
    assert {each.request.method for each in azure.exchanges if "login" not in each.request.host} == {"GET"}


def test_a_step_that_fails_is_reported_and_the_next_one_runs(report, azure, backend, settings):
    azure.faults.add(refusal(403), f"{ROOT}/computes", count=99)
    read(report, backend, settings)
    assert report.failures == 1
    assert any(line.startswith("FAILED clusters") for line in report.lines)
    assert report.lines[-1].startswith("ok")


def test_no_job_runs_that_may_cost_more_than_is_left(report, azure, backend, settings):
    run_jobs(report, backend, settings, 0.01)
    assert azure.jobs.jobs == {}
    assert all("left out" in line for line in report.lines)


def test_a_report_has_no_names_and_addresses(report):
    report.add("workspace space of team at https://x.blob.core.windows.net/a?sig=abc and /subscriptions/1/x")
    assert report.lines == ["workspace … of … at … and …"]
