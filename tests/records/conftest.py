"""A genuine MLflow server on the loopback interface; the tests are skipped where nobody has made it."""

import json
import os
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from batchai_magics.records import mlflow_runs
from tests.patience import PATIENCE_S
from tests.ports import free_port
from tests.server.clients import python_of
from tests.world import until

PROGRAM = Path(__file__).parent / "programs" / "start_mlflow.py"


class MlflowServer:
    """Asks the server for what it has."""

    def __init__(self, uri):
        self.uri = uri

    def runs(self, experiment):
        """All runs of an experiment."""
        found = self._get("experiments/get-by-name", experiment_name=experiment)["experiment"]
        return self._post("runs/search", {"experiment_ids": [found["experiment_id"]]}).get("runs", [])

    def is_known(self, experiment):
        """Whether there is an experiment of that name."""
        try:
            return bool(self._get("experiments/get-by-name", experiment_name=experiment))
        except urllib.error.HTTPError:
            return False

    def history(self, run, metric):
        """The values of a metric, by step."""
        found = self._get("metrics/get-history", run_id=run["info"]["run_id"], metric_key=metric)
        return sorted(found.get("metrics", []), key=lambda each: each["step"])

    def is_up(self):
        """Whether it responds."""
        try:
            return urllib.request.urlopen(f"{self.uri}/health", timeout=5).status == 200
        except OSError:
            return False

    def _get(self, path, **query):
        return self._send(f"{path}?{urllib.parse.urlencode(query)}", None)

    def _post(self, path, body):
        return self._send(path, json.dumps(body).encode())

    def _send(self, path, data):
        request = urllib.request.Request(
            f"{self.uri}/api/2.0/mlflow/{path}", data, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return json.loads(response.read())


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory):
    """A server, which takes many seconds to start."""
    folder, port = tmp_path_factory.mktemp("mlflow"), free_port()
    words = [python_of("mlflow"), str(PROGRAM), str(port), str(folder)]
    env = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env=env, start_new_session=True)
    server = MlflowServer(f"http://127.0.0.1:{port}")
    try:
        until(lambda: server.is_up() or process.poll() is not None)
        assert process.poll() is None, (folder / "log").read_text()[-2000:]
        yield server
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def mlflow(mlflow_server, monkeypatch):
    """The server, which a busy machine may make slow: this process waits for it."""
    monkeypatch.setattr(mlflow_runs, "TIMEOUT_S", PATIENCE_S)
    return mlflow_server
