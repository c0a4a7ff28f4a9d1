"""Jobs of Azure Machine Learning followed in one kernel, each with a line a second: their share of a core.

Held against the 8 % that sixteen of them may take. The service is the stand-in of the tests, in a process of
its own: its work does not count, but the requests, with TLS, do.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from batchai_magics.backends.azureml.azureml_backend import AzureMLBackend
from batchai_magics.backends.azureml.settings import AzureMLSettings
from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.config import Settings
from batchai_magics.follow import Follower
from batchai_magics.models.resource_ids import Kind, workspace_id
from benchmarks.row import Row, table

COUNT = 16
LIMIT = 8.0  # per cent of a core
RANKS = 2  # each with a log of its own
LOOK_S = 0.1  # between two looks at all jobs, as the live views take them
SETTLED_S, MEASURED_S = 10.0, 60.0


def rows() -> Iterator[Row]:
    """The share of a core, and the requests of a job in a second."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        here, there = multiprocessing.Pipe()
        service = multiprocessing.get_context("spawn").Process(
            target=serve, args=(folder, there), daemon=True
        )
        service.start()
        told = json.loads(here.recv())
        os.environ.update(told["env"])
        share, requests = _watch(told["place"], here)
        here.send("end")
        service.join()
    yield Row(f"{COUNT} jobs of Azure followed, of a core", share * 100, "the limit", LIMIT, "%")
    yield Row("requests for each of them in a second", requests, "the limit", 1.0, "/s")


def _watch(place: list[str], service: Pipe) -> tuple[float, float]:
    names = dict(zip(("subscription", "resource_group", "workspace"), place, strict=True))
    settings = replace(Settings(), backend="azureml", sections={"azureml": AzureMLSettings()}, **names)
    backend = open_backend(settings)
    assert isinstance(backend, AzureMLBackend)
    experiment = workspace_id(settings).child(Kind.EXPERIMENT, "watched")
    for number in range(COUNT):
        _put_job(backend, f"job-{number}")
    service.send("jobs")
    followers = [Follower(backend, experiment.child(Kind.JOB, f"job-{number}")) for number in range(COUNT)]
    _look(followers, SETTLED_S)
    before = _request_count(service)
    seen, share = _look(followers, MEASURED_S)
    assert seen >= COUNT, "nothing came"
    requests = (_request_count(service) - before) / MEASURED_S / COUNT
    backend.close()
    return share, requests


def _put_job(backend: AzureMLBackend, name: str) -> None:
    compute = {"resources": {"instanceCount": 1, "instanceType": "Standard_DS3_v2"}}
    job = {"jobType": "Command", "command": "train", "experimentName": "watched", **compute}
    body = {"properties": {**job, "environmentId": "azureml:image:1"}}
    backend.connection.send(backend.connection.request("PUT", f"jobs/{name}", body))


def _look(followers: list[Follower], seconds: float) -> tuple[int, float]:
    """The events, and the CPU time of this process in each second."""
    seen, began, cpu_s = 0, time.monotonic(), time.process_time()
    while (passed := time.monotonic() - began) < seconds:
        seen += sum(len(follower.poll()) for follower in followers)
        time.sleep(LOOK_S)
    return seen, (time.process_time() - cpu_s) / passed


def _request_count(service: Pipe) -> int:
    service.send("count")
    return int(service.recv())


def serve(folder: str, pipe: Pipe) -> None:
    """The service: starts the jobs that were put, and writes a line a second for each of their ranks."""
    from tests.azureml.stand_in import AzureStandIn

    azure = AzureStandIn(Path(folder) / "azure")
    pipe.send(json.dumps({"env": dict(azure.client_env), "place": azure.place}))
    step, names = 0, list[str]()
    while True:
        if pipe.poll(1.0 if not names else max(0.0, 1.0 - time.monotonic() % 1.0)):
            said = pipe.recv()
            if said == "end":
                return azure.close()
            if said == "count":
                pipe.send(len(azure.exchanges))
            else:
                names = [f"job-{number}" for number in range(COUNT)]
                for name in names:
                    azure.set_status(name, "Running")
            continue
        step += 1
        for name in names:
            for rank in range(RANKS):
                text = f"step={step} loss={1 / step:.6f}\n"
                azure.write_log(name, f"user_logs/std_log_process_{rank}.txt", text.encode())
        time.sleep(0.01)


if __name__ == "__main__":
    print(table(rows()))
