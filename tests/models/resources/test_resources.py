"""What a service shows of its resources is read, also where it says more or less than we do."""

from __future__ import annotations

import pytest

from batchai_magics.errors import ServiceError
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.error_details import ErrorDetail, NameValue
from batchai_magics.models.file_server import FileServer
from batchai_magics.models.job_execution import FileKind, OutputFile
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import Cluster, Experiment, JobResource, Node, Workspace
from batchai_magics.models.response_object import Provisioning, ProvisioningState
from batchai_magics.models.states import AllocationState, NodeState
from batchai_magics.models.subscription import ResourceGroup, StorageAccount, Usage
from tests.models.resources.sample_resources import (
    CHANGED,
    CREATED,
    EXPERIMENT,
    JOB,
    MADE,
    WORKSPACE,
    job,
    shown,
)
from tests.models.samples import cluster_body


def test_a_workspace_is_read():
    tags = {"Team": "a"}
    read = Workspace.from_wire(shown(WORKSPACE, MADE, location="eastus", tags={**tags, "None": None}))
    assert read == Workspace(WORKSPACE, "eastus", Provisioning(CREATED, CHANGED), tags)


def test_an_experiment_is_read_though_its_id_and_type_are_those_of_the_published_example():
    data = shown(EXPERIMENT, MADE, type="Microsoft.BatchAI/Experiments")
    data["id"] = data["id"].replace("workspaces", "workspace")
    assert Experiment.from_wire(data) == Experiment(EXPERIMENT, Provisioning(CREATED, CHANGED))


def test_a_cluster_is_read():
    properties = {
        **MADE,
        "allocationState": "resizing",
        "allocationStateTransitionTime": "2018-06-06T20:59:39Z",
        "currentNodeCount": 3,
        "nodeStateCounts": {"runningNodeCount": 1, "idleNodeCount": 2, "lostNodeCount": 9},
        **cluster_body(userAccountSettings={"adminUserName": "demo"})["properties"],
        "errors": [
            {"code": "NodeSetupFailed", "message": "m", "details": [{"name": "NodeId", "value": "n"}]}
        ],
    }
    read = Cluster.from_wire(shown(WORKSPACE.child(Kind.CLUSTER, "c"), properties))
    assert read.allocation_state is AllocationState.RESIZING
    assert read.allocation_changed == CHANGED
    assert read.node_states == NodeStateCounts(running_node_count=1, idle_node_count=2)
    assert read.spec.vm_size == "STANDARD_NC6"
    details = (NameValue(name="NodeId", value="n"),)
    assert read.errors == (ErrorDetail(code="NodeSetupFailed", message="m", details=details),)


def test_a_cluster_that_is_hardly_there_has_no_nodes():
    properties = {
        "creationTime": MADE["creationTime"],
        "provisioningState": "creating",
        "vmSize": "STANDARD_NC6",
        "userAccountSettings": {"adminUserName": "demo"},
    }
    read = Cluster.from_wire(shown(WORKSPACE.child(Kind.CLUSTER, "c"), properties))
    assert read.provisioning == Provisioning(CREATED, CREATED, ProvisioningState.CREATING)
    assert (read.node_states.total, read.allocation_changed) == (0, CREATED)


def test_a_file_server_is_read():
    properties = {
        **MADE,
        "provisioningState": "updating",
        "vmSize": "STANDARD_D1",
        "sshConfiguration": {"userAccountSettings": {"adminUserName": "me"}},
        "dataDisks": {
            "diskSizeInGB": 10,
            "cachingType": "readOnly",
            "diskCount": 2,
            "storageAccountType": "Standard_LRS",
        },
        "mountSettings": {
            "mountPoint": "/data",
            "fileServerPublicIP": "1.2.3.4",
            "fileServerInternalIP": "10.0.0.4",
        },
    }
    read = FileServer.from_wire(shown(WORKSPACE.child(Kind.FILE_SERVER, "f"), properties))
    assert read.spec.data_disks.disk_size_in_gb == 10
    assert read.spec.data_disks.caching_type.value == "readonly"
    assert (read.mount.mount_point, read.mount.internal_ip) == ("/data", "10.0.0.4")
    assert read.provisioning.state is ProvisioningState.UPDATING


def test_a_node_of_the_service_has_an_address_and_is_idle():
    data = {"nodeId": "tvm-1_1-p", "ipAddress": "104.41.217.143", "port": 50000}
    assert Node.from_wire(data) == Node("tvm-1_1-p", NodeState.IDLE, None, "104.41.217.143", 50000)


def test_what_a_node_does_and_for_which_job_survives_the_wire():
    node = Node("n", NodeState.LEAVING, JOB, "10.0.0.5", 50001, CHANGED)
    assert node.to_wire() == {
        "nodeId": "n",
        "ipAddress": "10.0.0.5",
        "port": 50001,
        "batchaiState": "leaving",
        "batchaiJob": str(JOB),
        "batchaiSince": "2018-06-06T20:59:39Z",
    }
    assert Node.from_wire(node.to_wire()) == node


def test_a_file_and_a_folder_of_the_service_are_read():
    file = {
        "name": "stdout.txt",
        "fileType": "file",
        "downloadUrl": "https://acc.file.core.windows.net/s/stdout.txt?sig=x",
        "properties": {"lastModified": "2018-06-06T20:59:39Z", "contentLength": 6},
    }
    read = OutputFile.from_wire(file, folder="logs/")
    assert read == OutputFile("logs/stdout.txt", FileKind.FILE, 6, CHANGED, file["downloadUrl"])
    assert repr(read) == "<stdouterr/logs/stdout.txt, 6 bytes, 2018-06-06 20:59:39 UTC>"
    folder = OutputFile.from_wire({"name": "afs", "fileType": "directory"})
    assert folder == OutputFile("afs", FileKind.DIRECTORY, 0)
    assert repr(folder) == "<stdouterr/afs, a folder>"


def test_a_usage_of_the_service_is_read():
    name = {"value": "Total Cluster LowPriority Regional vCPUs"}
    data = {"unit": "Count", "currentValue": 1, "limit": 20, "name": name}
    assert Usage.from_wire(data) == Usage(name["value"], name["value"], 1, 20)


def test_a_group_and_an_account_are_read_by_their_ids():
    group = {"id": "/subscriptions/s/resourcegroups/g", "location": "eastus", "tags": None}
    assert ResourceGroup.from_wire(group) == ResourceGroup("s", "g", "eastus")
    id = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/acc"
    account = {"id": id, "location": "eastus", "sku": {"name": "Premium_LRS"}, "kind": "StorageV2"}
    assert StorageAccount.from_wire(account) == StorageAccount(
        "s", "g", "acc", "eastus", "Premium_LRS", "StorageV2"
    )


@pytest.mark.parametrize(
    ("id", "says"), [("x", "'x' is not an id"), ("/subscriptions/s/resourceGroups/g", "it names no account")]
)
def test_an_account_with_a_wrong_id_is_named(id, says):
    with pytest.raises(ServiceError, match=rf"the storage account\.id: {says}"):
        StorageAccount.from_wire({"id": id})


def test_an_answer_with_a_wrong_id_is_named():
    with pytest.raises(ServiceError, match=r"the job\.id: 'x' is not a Batch AI resource id"):
        JobResource.from_wire({**job(), "id": "x"})


@pytest.mark.parametrize("data", [None, [], "text"])
def test_what_is_no_object_is_no_resource(data):
    with pytest.raises(ServiceError, match="the workspace: expected an object"):
        Workspace.from_wire(data)
