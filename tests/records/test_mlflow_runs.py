"""Runs on a genuine MLflow server."""

import gc
import json
import math
import threading
import time
import warnings
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError

import pytest

from batchai_magics.backends.folders.outbox import Outbox, Sender
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.runs.labels import LabelChange
from batchai_magics.models.runs.notifications import (
    MLFLOW_SCHEME,
    Delivery,
    DeliveryState,
    Notification,
    NotificationKind,
)
from batchai_magics.models.runs.scalar_export import ExportedRun, ScalarPoint
from batchai_magics.records import http_client
from batchai_magics.records.mlflow_runs import MlflowError, MlflowRun
from tests.ports import deaf_port
from tests.widgets.scripted_job import JOB, ScriptedBackend
from tests.world import world

__all__ = ["world"]

RUN = ExportedRun("resnet", "12345678-0000", "vision", 1000.0, {"lr": "0.1"}, {"kind": "baseline"})


@pytest.mark.slow
def test_runs_have_what_is_exported_of_them(mlflow, tmp_path, world):
    """In one test: each worker that takes one starts a server of its own."""
    has_metrics_params_tags_and_status(mlflow)
    is_no_second_one(mlflow)
    keeps_a_parameter_and_adds_a_new_one(mlflow)
    is_that_of_a_finished_job(mlflow, tmp_path / "scripted")
    has_a_jobs_parameters_tags_and_note(mlflow, world)


def has_metrics_params_tags_and_status(mlflow):
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


def is_no_second_one(mlflow):
    again = RUN._replace(guid="87654321-0000", experiment="again")
    for _ in range(2):
        MlflowRun(mlflow.uri, again, env={}).write([ScalarPoint("loss", 2.5, 1, 1001.0)])
    (run,) = mlflow.runs("again")
    assert len(mlflow.history(run, "loss")) == 1


def keeps_a_parameter_and_adds_a_new_one(mlflow):
    changed = RUN._replace(guid="99999999-0000", experiment="changed")
    for parameters in ({"lr": "0.1"}, {"lr": "0.2", "width": "8"}):
        writer = MlflowRun(mlflow.uri, changed._replace(parameters=parameters), env={})
        writer.write([ScalarPoint("loss", 2.5, 1, 1001.0)])
    writer.add_parameters({"depth": "2"})
    writer.write([ScalarPoint("loss", 2.0, 2, 1002.0)])
    (run,) = mlflow.runs("changed")
    params = {each["key"]: each["value"] for each in run["data"]["params"]}
    assert params == {"lr": "0.1", "width": "8", "depth": "2"}


def is_that_of_a_finished_job(mlflow, folder):
    backend = ScriptedBackend(folder)
    for step in (1, 2):
        backend.write(json.dumps({"step": step, "loss": 2.5 / step}) + "\n")
    backend.finish()
    Job(backend, JOB).export("mlflow", mlflow.uri)
    (run,) = mlflow.runs("e")
    assert (run["info"]["run_name"], run["info"]["status"]) == ("resnet", "FINISHED")
    assert [each["value"] for each in mlflow.history(run, "loss")] == [2.5, 1.25]


def has_a_jobs_parameters_tags_and_note(mlflow, world):
    job = world.run("r --experiment labels --tag wide", "print('step 1 loss 2.5')")
    job.backend.records.relabel(job.id, LabelChange(parameters={"lr": 0.5}))
    job.note("as in the paper")
    job.export("mlflow", mlflow.uri)
    (run,) = mlflow.runs("labels")
    tags = {each["key"]: each["value"] for each in run["data"]["tags"]}
    assert {each["key"]: each["value"] for each in run["data"]["params"]} == {"lr": "0.5"}
    assert (tags["wide"], tags["mlflow.note.content"]) == ("true", "as in the paper")


def test_a_server_that_is_not_there_is_named_without_its_password():
    env = {"MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": "hunter2"}
    with deaf_port() as port:
        writer = MlflowRun(f"http://127.0.0.1:{port}", RUN, env=env)
        with pytest.raises(MlflowError, match="does not respond") as caught:
            writer.write([ScalarPoint("loss", 2.5, 1, 1001.0)])
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(("closes", "is_read"), [("get-by-name", True), ("search", True), ("create", False)])
def test_a_request_whose_connection_is_closed_is_repeated_unless_it_creates_something(closes, is_read):
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            path = self.path.partition("?")[0]
            seen.append(path.rpartition("/")[2])
            if seen.count(closes) == 1 and seen[-1] == closes:
                return  # closes the connection without a response
            body = {"experiment": {"experiment_id": "1"}, "runs": [], "run": {"info": {"run_id": "r"}}}
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        writer = MlflowRun(f"http://127.0.0.1:{server.server_port}", RUN, {}, pauses_s=(0, 0))
        refused = nullcontext() if is_read else pytest.raises(MlflowError, match="Remote end closed")
        with refused:
            writer.write([ScalarPoint("loss", 2.5, 1, 1001.0)])
        server.shutdown()
    assert seen.count(closes) == 1 + is_read
    assert ("log-batch" in seen) is is_read


class ServerWithLogin(ThreadingHTTPServer):
    """Answers nobody without a login."""

    def __init__(self):
        logins = self.logins = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                logins.append(self.headers["Authorization"])
                self.send_response(404 if self.headers["Authorization"] else 401)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_POST = do_GET

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


def test_a_response_that_is_an_error_holds_no_connection():
    server = ServerWithLogin()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(HTTPError) as error:
            http_client.send(server.uri, None, {}, timeout_s=30)
        assert (error.value.code, error.value.read()) == (401, b"")
        del error
        gc.collect()
    server.shutdown()
    server.server_close()
    assert not [each for each in seen if each.category is ResourceWarning]


def test_a_final_status_that_needs_a_login_waits_for_a_client_that_has_one(tmp_path, monkeypatch):
    for name in ("USERNAME", "PASSWORD", "TOKEN"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    server, box = ServerWithLogin(), Outbox(tmp_path, "guid")
    box.open([f"{MLFLOW_SCHEME}{server.uri}"])
    box.put(Notification("guid-ended", NotificationKind.ENDED, "r", "succeeded", time.time(), run="guid"))
    assert not Sender(box, "node-1").send()
    (file,) = (tmp_path / "jobs" / "guid" / "records" / "deliveries").iterdir()
    delivery = Delivery.from_text(file.read_bytes())
    assert (delivery.state, delivery.channel) == (DeliveryState.RETRYING, "mlflow")
    assert "set MLFLOW_TRACKING_USERNAME" in delivery.problem
    assert [each.number for each in box.pending()] == [0]
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "hunter2")
    Sender(box, "laptop").send([0.0])
    assert server.logins[-1] == "Bearer hunter2"
    assert "hunter2" not in file.read_text()
    server.shutdown()
    server.server_close()
