"""The genuine azure-ai-ml works against the stand-in, and its models know every part of its responses."""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path
from typing import Any

import pytest
import requests

from batchai_magics.backends.azureml.settings import AzureMLSettings
from batchai_magics.backends.base import FileRef
from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.cell import parse
from batchai_magics.config import Settings
from batchai_magics.jobs.submit import submit as submit_cell
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.states import ExecutionState
from tests.azureml.http_messages import Request
from tests.azureml.stand_in import AzureStandIn
from tests.azureml.tls_proxy import Exchange
from tests.azureml.workspace import API, PLACE, ROOT
from tests.server.clients import drive
from tests.world import until

pytestmark = pytest.mark.slow
DRIVER = Path(__file__).parent / "clients" / "drive_azureml.py"
TRAIN = "import os, sys; print('rank', os.environ['RANK'], sys.argv[1:])"


def step(
    name: str, *arguments: object, **options: object
) -> tuple[str, tuple[object, ...], dict[str, object]]:
    return name, arguments, options


def perform(azure: AzureStandIn, *steps: object) -> list[Any]:
    """What each step gets of the genuine client, all in one process."""
    names = zip(("SUBSCRIPTION", "GROUP", "WORKSPACE"), azure.place, strict=True)
    return drive("azureml", str(DRIVER), told=steps, **azure.client_env, **dict(names))


def submit(azure: AzureStandIn, name: str, command: str, **properties) -> None:
    """Puts a job as a client does, on serverless nodes unless a compute is given."""
    base = {"jobType": "Command", "command": command, "environmentId": "azureml:image:1"}
    nodes = properties.pop("nodes", 1)
    resources = {"instanceCount": nodes, "instanceType": "Standard_DS3_v2"}
    body = json.dumps({"properties": {**base, "resources": resources, **properties}}).encode()
    response = azure.jobs.routes.answer(
        Request("PUT", "management.azure.com", f"{ROOT}/jobs/{name}", {}, {}, body)
    )
    assert response.status == 201, response.body


def ended(azure: AzureStandIn, name: str) -> str:
    return until(lambda: azure.jobs.find(name).is_final and azure.jobs.find(name).status)


def go_once_read(azure: AzureStandIn, folder: Path) -> str:
    """A command that waits until a client has read a log that has something."""
    file = folder / "is read"

    def watch() -> None:
        until(lambda: any(_is_of_log(exchange) for exchange in azure.exchanges))
        file.touch()

    threading.Thread(target=watch, daemon=True).start()
    return f'while [ ! -e "{file}" ]; do sleep 0.05; done'


def _is_of_log(exchange: Exchange) -> bool:
    is_log = "/user_logs/" in exchange.request.path and exchange.request.method == "GET"
    return is_log and exchange.sent_bytes > 0 and exchange.status < 400


def test_it_creates_streams_lists_downloads_and_archives_a_job(running_azure, tmp_path):
    running_azure.computes.add("cpu")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(TRAIN)
    kind, wait = {"type": "pytorch", "process_count_per_instance": 2}, go_once_read(running_azure, tmp_path)
    made, streamed, shown, names, files, _, left = perform(
        running_azure,
        step(
            "submit",
            "one",
            f"python train.py a; {wait}; echo done >${{{{outputs.result}}}}/mark",
            code=str(tmp_path / "code"),
            compute="cpu",
            nodes=2,
            distribution=kind,
            experiment_name="tries",
        ),
        step("stream", "one"),
        step("show", "one"),
        step("names"),
        step("download", "one", str(tmp_path / "got")),
        step("archive", "one"),
        step("names"),
    )
    assert (made["name"], made["experiment"]) == ("one", "tries")
    assert (streamed["error"], "rank 0 ['a']" in streamed["printed"]) == (None, True)
    assert (shown["status"], names, left) == ("Completed", ["one"], [])
    logs = [f"artifacts/user_logs/std_log_process_{rank:02}.txt" for rank in range(4)]
    assert {*logs, "named-outputs/result/mark"} <= {*files}


def test_it_cancels_a_job_streams_a_failure_and_makes_shows_and_deletes_clusters(running_azure, tmp_path):
    wait = go_once_read(running_azure, tmp_path)
    running_azure.computes.retry_after = "1"
    _, cancelled, _, streamed, made, listed, nodes, usage, sizes, _, left = perform(
        running_azure,
        step("submit", "one", "sleep 600"),
        step("cancel", "one"),
        step("submit", "two", f"echo so; {wait}; exit 3"),
        step("stream", "two"),
        step("make_cluster", "low", "Standard_NC4as_T4_v3", 2),
        step("clusters"),
        step("nodes", "low"),
        step("usage"),
        step("sizes"),
        step("remove_cluster", "low"),
        step("clusters"),
    )
    assert cancelled["status"] in ("CancelRequested", "Canceled")
    assert ended(running_azure, "one") == "Canceled"
    assert "so" in streamed["printed"]
    assert "status code 3" in streamed["error"]
    assert made == {"name": "low", "size": "Standard_NC4as_T4_v3", "tier": "low_priority", "maximum": 2}
    assert (listed, nodes, left) == (["low"], [], [])
    assert ["Standard NCASv3_T4 Family", 100] in usage
    assert "Standard_NC24ads_A100_v4" in sizes


def test_it_and_we_see_each_others_jobs(running_azure):
    subscription, group, workspace = running_azure.place
    names = {"subscription": subscription, "resource_group": group, "workspace": workspace}
    settings = Settings(backend="azureml", sections={"azureml": AzureMLSettings(look_s=0.0)}, **names)
    with contextlib.closing(open_backend(settings)) as backend:
        job = submit_cell(backend, parse("ours", "print('from us')", settings=settings), settings).job
        run = until(lambda: running_azure.jobs.jobs and next(iter(running_azure.jobs.jobs)))
        ended(running_azure, run)
        shown, listed, streamed, theirs = perform(
            running_azure,
            step("show", run),
            step("names"),
            step("stream", run),
            step("submit", "theirs", "echo from them", experiment_name="default"),
        )
        assert (shown["status"], shown["experiment"], listed) == ("Completed", "default", [run])
        assert (streamed["error"], theirs["name"]) == (None, "theirs")
        ended(running_azure, "theirs")
        other = job.id.parent.child(Kind.JOB, "theirs")
        assert backend.show(other).state is ExecutionState.SUCCEEDED
        assert backend.read(FileRef(other, "stdout.txt")).data == b"from them\n"
        assert {item.id.name for item in backend.list(job.id.parent, Kind.JOB)} == {"ours", "theirs"}


def body(azure: AzureStandIn, method: str, url: str, data: object = None) -> dict[str, Any]:
    token = azure.sign_in.issue("https://management.azure.com/.default").token
    response = requests.request(
        method, url, json=data, headers={"Authorization": f"Bearer {token}"}, timeout=9
    )
    response.raise_for_status()
    return response.json()


def test_the_generated_models_know_every_part_of_the_responses(running_azure):
    azure, management = running_azure, "https://management.azure.com"
    azure.computes.add("cpu", minimum=1)
    kind = {"distributionType": "Mpi", "processCountPerInstance": 2}
    outputs = {"o": {"jobOutputType": "uri_folder"}}
    submit(
        azure, "one", "exit 3", nodes=2, distribution=kind, outputs=outputs, computeId=f"{ROOT}/computes/cpu"
    )
    ended(azure, "one")
    azure.set_status("one", "Failed")
    upload = {"pendingUploadType": "TemporaryBlobReference"}
    environment = {"properties": {"image": "i", "isAnonymous": True, "osType": "Linux"}}
    code = {"properties": {"codeUri": "https://x", "properties": {"hash_sha256": "h"}, "isAnonymous": True}}
    stores = f"{management}{ROOT}/datastores"
    responses = [
        ("Workspace", body(azure, "GET", management + ROOT)),
        ("ComputeResource", body(azure, "GET", f"{management}{ROOT}/computes/cpu")),
        *[
            ("AmlComputeNodeInformation", node)
            for node in body(azure, "POST", f"{management}{ROOT}/computes/cpu/listNodes")["nodes"]
        ],
        *[("Usage", item) for item in body(azure, "GET", f"{management}{PLACE}/usages")["value"]],
        ("VirtualMachineSizeListResult", body(azure, "GET", f"{management}{PLACE}/vmSizes")),
        ("JobBase", body(azure, "GET", f"{management}{ROOT}/jobs/one")),
        ("Datastore", body(azure, "GET", f"{stores}/workspaceartifactstore")),
        ("DatastoreSecrets", body(azure, "POST", f"{stores}/workspaceartifactstore/listSecrets")),
        (
            "PendingUploadResponseDto",
            body(azure, "POST", f"{management}{ROOT}/codes/c/versions/1/startPendingUpload", upload),
        ),
        ("CodeVersion", body(azure, "PUT", f"{management}{ROOT}/codes/c/versions/1", code)),
        (
            "EnvironmentVersion",
            body(azure, "PUT", f"{management}{ROOT}/environments/e/versions/1", environment),
        ),
        ("EnvironmentContainer", body(azure, "GET", f"{management}{ROOT}/environments/e")),
        ("RunDetails", body(azure, "GET", f"{API}/history/v1.0{ROOT}/runs/one/details")),
        ("Run", body(azure, "GET", f"{API}/history/v1.0{ROOT}/runs/one")),
    ]
    unknown = ("JobBase", {"properties": {"jobType": "Command", "x": 1}})
    found = perform(azure, *[step("losses", model, value) for model, value in [*responses, unknown]])
    assert found == [*([] for _ in responses), ["JobBase.properties.x"]]
