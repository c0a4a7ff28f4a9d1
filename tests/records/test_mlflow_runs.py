"""Runs on a genuine MLflow server."""

import json
import math

import pytest

from batchai_magics.jobs.job_handle import Job
from batchai_magics.records.mlflow_runs import MlflowError, MlflowRun
from batchai_magics.records.scalar_export import ExportedRun, ScalarPoint
from tests.ports import free_port
from tests.widgets.scripted_job import JOB, ScriptedBackend

RUN = ExportedRun("resnet", "12345678-0000", "vision", 1000.0, {"lr": "0.1"}, {"kind": "baseline"})


@pytest.mark.slow
def test_a_run_has_its_metrics_params_tags_and_status(mlflow):
    writer = MlflowRun(mlflow.uri, RUN, env={})
    writer.write(ScalarPoint("loss", 1 / step, step, 1000.0 + step) for step in range(1, 2502))
    writer.write([ScalarPoint("acc@1", math.nan, 3, 1003.0), ScalarPoint("loss", 9.0, 1, 1001.0, rank=2)])
    writer.finish("succeeded", 1010.0)
    (run,) = mlflow.runs("vision")
    assert (run["info"]["run_name"], run["info"]["status"]) == ("resnet", "FINISHED")
    assert (run["info"]["start_time"], run["info"]["end_time"]) == (1_000_000, 1_010_000)
    assert {each["key"]: each["value"] for each in run["data"]["params"]} == {"lr": "0.1"}
    assert {"key": "kind", "value": "baseline"} in run["data"]["tags"]
    history = mlflow.history(run, "loss")
    assert [(each["step"], each["value"]) for each in history] == [(s, 1 / s) for s in range(1, 2502)]
    assert history[0]["timestamp"] == 1_001_000
    assert {each["key"] for each in run["data"]["metrics"]} == {"loss", "acc_1", "loss/rank-2"}


@pytest.mark.slow
def test_exporting_a_run_again_makes_no_second_one(mlflow):
    again = RUN._replace(guid="87654321-0000", experiment="again")
    for _ in range(2):
        MlflowRun(mlflow.uri, again, env={}).write([ScalarPoint("loss", 2.5, 1, 1001.0)])
    (run,) = mlflow.runs("again")
    assert len(mlflow.history(run, "loss")) == 1


def test_a_server_that_is_not_there_is_named_without_its_password():
    env = {"MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": "hunter2"}
    writer = MlflowRun(f"http://127.0.0.1:{free_port()}", RUN, env=env)
    with pytest.raises(MlflowError, match="does not respond") as caught:
        writer.write([ScalarPoint("loss", 2.5, 1, 1001.0)])
    assert "hunter2" not in str(caught.value)


@pytest.mark.slow
def test_a_finished_job_is_exported_as_a_finished_run(mlflow, tmp_path):
    backend = ScriptedBackend(tmp_path)
    for step in (1, 2):
        backend.write(json.dumps({"step": step, "loss": 2.5 / step}) + "\n")
    backend.finish()
    Job(backend, JOB).export("mlflow", mlflow.uri)
    (run,) = mlflow.runs("e")
    assert (run["info"]["run_name"], run["info"]["status"]) == ("resnet", "FINISHED")
    assert [each["value"] for each in mlflow.history(run, "loss")] == [2.5, 1.25]
