"""Jobs of the stand-in really run."""

from __future__ import annotations

import json

import psutil
import pytest

from tests.azureml.http_messages import Request
from tests.azureml.jobs import artifact
from tests.azureml.stand_in import AzureStandIn
from tests.azureml.workspace import ROOT
from tests.world import until

pytestmark = pytest.mark.slow
HOST = "management.azure.com"


def submit(azure: AzureStandIn, name: str, command: str, **properties) -> None:
    """Puts a job as a client does, on serverless nodes unless a compute is given."""
    base = {"jobType": "Command", "command": command, "environmentId": "azureml:image:1"}
    nodes = properties.pop("nodes", 1)
    resources = {"instanceCount": nodes, "instanceType": "Standard_DS3_v2"}
    body = json.dumps({"properties": {**base, "resources": resources, **properties}}).encode()
    response = azure.jobs.routes.answer(Request("PUT", HOST, f"{ROOT}/jobs/{name}", {}, {}, body))
    assert response.status == 201, response.body


def ended(azure: AzureStandIn, name: str) -> str:
    return until(lambda: azure.jobs.find(name).is_final and azure.jobs.find(name).status)


def log(azure: AzureStandIn, name: str, file: str = "std_log.txt") -> str:
    return azure.blobs.read(*artifact(azure.jobs.find(name), f"user_logs/{file}")).decode()


def logs(azure: AzureStandIn, name: str) -> list[str]:
    container, prefix = artifact(azure.jobs.find(name), "user_logs/")
    return [own[len(prefix) :] for own in azure.blobs.names(container, prefix)]


def test_a_cancelled_job_leaves_no_process(running_azure):
    running_azure.computes.add("cpu")
    submit(running_azure, "one", "sleep 600 & echo $!; wait", computeId=f"{ROOT}/computes/cpu")
    pid = int(until(lambda: logs(running_azure, "one") and log(running_azure, "one")))
    (node,) = running_azure.computes.find("cpu").nodes
    assert (node.state, node.run_id) == ("running", "one")
    running_azure.jobs.routes.answer(Request("POST", HOST, f"{ROOT}/jobs/one/cancel", {}, {}))
    assert ended(running_azure, "one") == "Canceled"
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    until(lambda: node.state == "idle")


def test_a_preempted_job_runs_again_with_logs_of_its_own(running_azure):
    running_azure.computes.add("cpu")
    command = (
        'echo begun; [ -e "$AZURE_ML_OUTPUT_o/mark" ] || { touch "$AZURE_ML_OUTPUT_o/mark"; sleep 600; }'
    )
    outputs = {"o": {"jobOutputType": "uri_folder"}}
    submit(running_azure, "one", command, computeId=f"{ROOT}/computes/cpu", outputs=outputs)
    until(lambda: running_azure.blobs.names("azureml-blobstore-standin", "azureml/one/o/mark"))
    running_azure.runs.preempted_nodes_leave.clear()
    running_azure.preempt("one")
    until(
        lambda: running_azure.computes.find("cpu").body()["properties"]["properties"]["nodeStateCounts"][
            "preemptedNodeCount"
        ]
    )
    running_azure.runs.preempted_nodes_leave.set()
    assert ended(running_azure, "one") == "Completed"
    assert logs(running_azure, "one") == ["retry_001/std_log.txt", "std_log.txt"]


def test_code_inputs_and_outputs_are_folders(running_azure):
    azure = running_azure
    azure.blobs.write("code-c", "proj/main.py", b"import sys; print(open(sys.argv[1] + '/x').read())")
    azure.blobs.write("azureml-blobstore-standin", "data/x", b"content")
    azure.workspace.codes["c", "1"] = {"codeUri": "https://standin.blob.core.windows.net/code-c/proj"}
    submit(
        azure,
        "one",
        "python main.py ${{inputs.d}} >${{outputs.o}}/y; echo $AZUREML_RUN_ID >outputs/run",
        codeId=f"{ROOT}/codes/c/versions/1",
        inputs={
            "d": {"jobInputType": "uri_folder", "uri": "azureml://datastores/workspaceblobstore/paths/data"}
        },
        outputs={"o": {"jobOutputType": "uri_folder"}},
    )
    assert ended(azure, "one") == "Completed"
    assert azure.blobs.read("azureml-blobstore-standin", "azureml/one/o/y") == b"content\n"
    assert azure.blobs.read(*artifact(azure.jobs.find("one"), "outputs/run")) == b"one\n"


def test_jobs_wait_for_nodes_in_order_and_quota(running_azure):
    running_azure.workspace.cores["standardDSv2Family"] = 4
    running_azure.computes.add("cpu", maximum=2)
    compute = f"{ROOT}/computes/cpu"
    submit(running_azure, "large", "true", nodes=2, computeId=compute)
    cluster = running_azure.computes.find("cpu")
    until(lambda: cluster.errors)
    assert running_azure.jobs.find("large").status == "Queued"
    running_azure.workspace.cores["standardDSv2Family"] = 8
    assert ended(running_azure, "large") == "Completed"


def test_an_image_does_not_have_the_package(running_azure):
    submit(running_azure, "one", "python -c 'import batchai_magics'")
    assert ended(running_azure, "one") == "Failed"
    assert "the image has no batchai_magics" in log(running_azure, "one")
