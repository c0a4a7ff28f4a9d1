"""Exports of a job's metrics: TensorBoard's files, an MLflow server, tables."""

import json
import sys
from pathlib import Path

import pandas as pd
import pytest

from batchai_magics.errors import UnreachableError, UsageError
from batchai_magics.jobs.job_handle import Job
from batchai_magics.metrics.reading.event_files import EventFileReader
from tests.ports import deaf_port
from tests.widgets.scripted_job import JOB


@pytest.fixture
def job(backend):
    for step in (1, 2):
        backend.write(json.dumps({"step": step, "loss": 2.5 / step, "time": 1772366400.0 + step}) + "\n")
    backend.finish()
    return Job(backend, JOB)


def test_event_files_have_the_steps_values_and_times(job, tmp_path):
    assert job.export("tensorboard", tmp_path / "runs") == str(tmp_path / "runs")
    (file,) = (tmp_path / "runs" / "resnet").iterdir()
    points = [(point.name, point.step, point.value, point.time) for point in EventFileReader(file).read()]
    assert points == [("loss", 1, 2.5, 1772366401.0), ("loss", 2, 1.25, 1772366402.0)]


def test_tables_have_a_row_for_each_number(job, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert job.export("csv") == "resnet.csv"
    assert pd.read_csv("resnet.csv")["value"].tolist() == [2.5, 1.25]
    rows = json.loads(Path(job.export("json", tmp_path / "all.json")).read_text())
    assert [(row["step"], row["metric"], row["value"]) for row in rows] == [
        (1, "loss", 2.5),
        (2, "loss", 1.25),
    ]


def test_json_has_every_digit_and_the_numbers_that_are_none(backend, tmp_path):
    backend.write(
        '{"step": 1, "lr": 1.2345678901234567e-12, "time": 1772366400.123}\n{"step": 2, "loss": NaN}\n'
    )
    backend.finish()
    file = Path(Job(backend, JOB).export("json", tmp_path / "new" / "folder" / "a.json"))
    first, second = json.loads(file.read_text())
    assert (first["value"], second["value"]) == (1.2345678901234567e-12, "NaN")
    assert first["wall_time"] == "2026-03-01 12:00:00.123000+00:00"
    assert second["wall_time"] is None


def test_parquet_has_the_same_rows(job, tmp_path):
    assert pd.read_parquet(job.export("parquet", tmp_path / "a.parquet"))["value"].tolist() == [2.5, 1.25]


def test_parquet_without_its_library_names_it(job, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError) as caught:
        job.export("parquet", tmp_path / "a.parquet")
    assert caught.value.hint == "pip install pyarrow"


def test_an_unknown_kind_is_refused_with_a_suggestion(job):
    with pytest.raises(UsageError, match="unknown target 'tensorbord'") as caught:
        job.export("tensorbord")
    assert "tensorboard" in caught.value.hint


def test_an_address_with_a_password_is_refused_without_repeating_it(job):
    with pytest.raises(UsageError, match="MLFLOW_TRACKING_PASSWORD") as caught:
        job.export("mlflow", "http://me:hunter2@127.0.0.1")
    assert "hunter2" not in str(caught.value)


def test_a_server_that_does_not_respond_is_an_error_of_its_own(job):
    with deaf_port() as port, pytest.raises(UnreachableError, match="MLflow does not respond"):
        job.export("mlflow", f"http://127.0.0.1:{port}")
