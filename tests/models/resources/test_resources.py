"""What a service shows of its resources is read, also where it says more or less than we do."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest

from batchai_magics.errors import ServiceError
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.error_details import ErrorDetail, NameValue
from batchai_magics.models.file_server import FileServer
from batchai_magics.models.job_execution import ExecutionInfo, FileKind, OutputFile, RankExit
from batchai_magics.models.job_spec import JobSpec
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


def test_experiment_with_id_and_type_of_the_published_example_is_read():
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


def test_cluster_without_node_counts_is_read_as_having_no_nodes():
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


def test_a_queued_job_has_no_execution_and_a_running_one_no_end():
    assert JobResource.from_wire(job(executionState="queued", executionInfo=None)).execution is None
    running = JobResource.from_wire(
        job(executionState="running", executionInfo={"startTime": "2018-06-06T21:00:00.5Z"})
    )
    begun = datetime(2018, 6, 6, 21, 0, 0, 500_000, timezone.utc)
    assert running.execution == ExecutionInfo(begun)


def test_properties_of_later_api_versions_are_ignored():
    later = job(
        constraints={"maxWallClockTime": "P150D", "maxAttempts": 1},
        maxJobDurationSeconds=2592000,
        cleanupNodeBeforeRun=False,
        executionInfo={"startTime": "2020-01-01T00:00:00.1234567Z", "totalJobNodeHours": 0.1},
    )
    read = JobResource.from_wire(later)
    assert read.spec.constraints.max_wall_clock_time == "P150D"
    assert read.execution.started.microsecond == 123_456


def test_keys_and_words_are_read_in_any_letter_case():
    def upper(value):
        if isinstance(value, dict):
            return {key.upper(): upper(inner) for key, inner in value.items()}
        return [upper(item) for item in value] if isinstance(value, list) else value

    data = job(executionState="Failed", schedulingPriority="High")
    assert JobResource.from_wire(upper(data)) == JobResource.from_wire(data)


def test_null_properties_are_read_as_missing():
    data = job()
    data["properties"].update(jobPreparation=None, batchaiRanks=None, executionInfo=None)
    assert JobResource.from_wire(data).execution is None


def test_the_cluster_of_a_job_may_be_named_as_in_2017():
    old = "/subscriptions/s/resourceGroups/g/providers/Microsoft.BatchAI/clusters/c"
    assert JobResource.from_wire(job(cluster={"id": old})).spec.cluster.id == old


def test_how_every_rank_ended_survives_the_wire_the_first_failure_first():
    ended = datetime(2018, 6, 6, 21, 9, 59, 250_000, timezone.utc)
    ranks = (RankExit(2, "tvm-2", 137, ended), RankExit(0, "tvm-1", 0), RankExit(1, "tvm-1", None, ended))
    before = JobResource.from_wire(job())
    wire = JobResource(**{**vars(before), "ranks": ranks}).to_wire()
    assert wire["properties"]["batchaiRanks"] == [
        {"rank": 2, "nodeId": "tvm-2", "exitCode": 137, "endTime": "2018-06-06T21:09:59.25Z"},
        {"rank": 0, "nodeId": "tvm-1", "exitCode": 0},
        {"rank": 1, "nodeId": "tvm-1", "endTime": "2018-06-06T21:09:59.25Z"},
    ]
    assert JobResource.from_wire(json.loads(json.dumps(wire))).ranks == ranks


def test_a_job_without_ranks_is_shown_as_the_service_did():
    wire = JobResource.from_wire(job()).to_wire()
    assert not [key for key in wire["properties"] if key.startswith("batchai")]


def test_a_job_that_shows_its_ranks_can_be_given_back_as_a_description():
    data = job(batchaiRanks=[{"rank": 0, "nodeId": "n", "exitCode": 1}])
    assert JobSpec.from_wire(data) == JobResource.from_wire(data).spec


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"executionState": None}, "the job.properties.executionState: it is missing"),
        ({"executionState": "resting"}, "'resting' is no ExecutionState"),
        ({"creationTime": "yesterday"}, "properties.creationTime: 'yesterday' is not a time"),
        ({"nodeCount": "many"}, "the job.properties.nodeCount: expected a whole number"),
        ({"horovodSettings": None}, "no settings of a toolkit"),
        ({"executionInfo": 3}, "the job.properties.executionInfo: expected an object, got int"),
        ({"executionInfo": {"exitCode": 1}}, "executionInfo.startTime: it is missing"),
        ({"batchaiRanks": {"rank": 1}}, "the job.properties.batchaiRanks: expected a list, got dict"),
        ({"batchaiRanks": [{"rank": True, "nodeId": "n"}]}, "the rank.rank: True is not a whole number"),
    ],
)
def test_what_cannot_be_read_is_named(changes, says):
    with pytest.raises(ServiceError) as caught:
        JobResource.from_wire(job(**changes))
    assert says in caught.value.message
    assert caught.value.code == "InvalidAnswer"


@pytest.mark.parametrize(
    ("code", "peak", "meaning"),
    [
        (0, 10**9, ""),
        (1, 10**9, ""),
        (None, None, ""),
        (127, 10**9, "the command was not found"),
        (137, None, "killed (SIGKILL): by a user, or by the system because memory ran out"),
        (
            137,
            24_000_000_000,
            "killed (SIGKILL): by a user, or by the system because memory ran out; "
            "its largest process had 24 GB of memory at its peak",
        ),
        (
            139,
            12_300_000_000,
            "segmentation fault (SIGSEGV): invalid memory access; "
            "its largest process had 12 GB of memory at its peak",
        ),
        (134, 15_400_000, "aborted (SIGABRT); its largest process had 15 MB of memory at its peak"),
    ],
)
def test_an_exit_code_that_is_no_programs_own_is_said_in_words(code, peak, meaning):
    assert RankExit(0, "node-0", code, None, peak).meaning == meaning
