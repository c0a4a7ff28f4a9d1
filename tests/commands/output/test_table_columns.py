"""The tables of resources: each cell under its own title. No two values of a row are the same."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from batchai_magics.backends.base import ShareFile
from batchai_magics.commands.output.command_result import Result
from batchai_magics.commands.output.table_columns import Blob, SetupFile
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.file_server import FileServer, FileServerSpec, MountSettings
from batchai_magics.models.job_execution import FileKind, OutputFile
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import Node
from batchai_magics.models.response_object import Provisioning, ProvisioningState
from batchai_magics.models.states import ExecutionState, NodeState
from batchai_magics.models.subscription import ResourceGroup, StorageAccount
from tests.widgets.scripted_job import JOB, START, cluster, resource

COUNTS = NodeStateCounts(
    idle_node_count=1,
    running_node_count=2,
    preparing_node_count=3,
    leaving_node_count=4,
    unusable_node_count=5,
)
CLUSTER = cluster(JOB.workspace_id.child(Kind.CLUSTER, "nc6"), COUNTS)
MODIFIED = datetime(2026, 3, 1, 14, 5, 6, 789000, tzinfo=timezone.utc)
SERVER = FileServer(
    JOB.workspace_id.child(Kind.FILE_SERVER, "nfs"),
    FileServerSpec.from_wire(
        {
            "properties": {
                "vmSize": "Standard_D2",
                "dataDisks": {"diskCount": 2, "diskSizeInGB": 10, "storageAccountType": "Standard_LRS"},
                "sshConfiguration": {
                    "userAccountSettings": {"adminUserName": "me", "adminUserPassword": "x"}
                },
            }
        }
    ),
    Provisioning(START, START),
    MountSettings(mount_point="/data", public_ip="1.1.1.1", internal_ip="2.2.2.2"),
)


def row(value):
    """The one row of a value's table, by title."""
    table = Result(value).table
    (cells,) = table.rows
    return dict(zip(table.titles, cells, strict=True))


def test_a_cluster_counts_its_nodes_state_by_state():
    assert row(CLUSTER) == {
        "Name": "nc6",
        "Resource Group": "g",
        "Workspace": "w",
        "VM Size": "Standard_NC12",
        "State": "steady",
        "Idle": 1,
        "Running": 2,
        "Preparing": 3,
        "Leaving": 4,
        "Unusable": 5,
    }


def test_what_is_being_deleted_says_so():
    going = Provisioning(START, START, ProvisioningState.DELETING)
    assert row(replace(CLUSTER, provisioning=going))["State"] == "deleting"
    assert row(replace(resource(), provisioning=going))["State"] == "deleting"


def test_a_job_tells_its_cluster_and_its_exit_code():
    elsewhere = JOB.workspace_id.child(Kind.CLUSTER, "nc6")
    job = resource(ExecutionState.FAILED, exit_code=3)
    spec = job.spec.model_copy(
        update={"cluster": job.spec.cluster.model_copy(update={"id": str(replace(elsewhere, group="other"))})}
    )
    assert row(replace(job, spec=spec)) == {
        "Name": "resnet",
        "Cluster": "nc6",
        "Cluster RG": "other",
        "Cluster Workspace": "w",
        "Tool": "python",
        "Nodes": 2,
        "State": "failed",
        "Exit code": 3,
    }


def test_a_job_that_goes_on_has_no_exit_code():
    assert row(resource(ExecutionState.QUEUED))["Exit code"] == row(resource())["Exit code"] == ""


def test_a_file_server_tells_its_disks_and_addresses():
    assert row(SERVER) == {
        "Name": "nfs",
        "Resource Group": "g",
        "Size": "Standard_D2",
        "Disks": "2 x 10 Gb",
        "Public IP": "1.1.1.1",
        "Internal IP": "2.2.2.2",
        "Mount Point": "/data",
    }


def test_a_node_tells_where_it_is_reached():
    node = Node("tvm-1", NodeState.IDLE, ip_address="10.0.0.4", port=50000)
    assert row(node) == {"ID": "tvm-1", "IP": "10.0.0.4", "SSH Port": 50000}


@pytest.mark.parametrize("kind", [OutputFile, SetupFile])
def test_a_file_tells_its_size_and_a_folder_has_none(kind):
    assert row(kind("a.txt", FileKind.FILE, 12))["Size"] == 12
    assert row(kind("logs", FileKind.DIRECTORY, 4096))["Size"] == ""


def test_a_file_of_a_job_tells_its_type_and_when_it_was_modified():
    file = row(OutputFile("sub/a.txt", FileKind.FILE, 12, MODIFIED))
    assert (file["Name"], file["Type"], file["Modified"]) == ("a.txt", "file", "2026-03-01T14:05:06+00:00")
    assert row(OutputFile("logs", FileKind.DIRECTORY, 0))["Type"] == "directory"
    assert row(OutputFile("logs", FileKind.DIRECTORY, 0))["Modified"] == " "


def test_a_file_of_a_setup_task_tells_whether_it_is_a_folder():
    assert row(SetupFile("logs", FileKind.DIRECTORY, 0))["Is directory"] == "yes"
    assert row(SetupFile("a.txt", FileKind.FILE, 0))["Is directory"] == "no"
    assert (
        repr(SetupFile("node/a.txt", FileKind.FILE, 12, download_url="http://h/?sig=x"))
        == "<node/a.txt, 12 bytes>"
    )


def test_a_file_of_a_share_has_its_name_and_a_blob_its_path():
    assert row(ShareFile("in/a.txt", FileKind.FILE, 12, MODIFIED)) == {
        "Name": "a.txt",
        "Content Length": 12,
        "Type": "file",
        "Last Modified": "2026-03-01T14:05:06+00:00",
    }
    assert row(ShareFile("in", FileKind.DIRECTORY, 0, MODIFIED))["Type"] == "dir"
    assert row(Blob("in/a.txt", FileKind.FILE, 12, MODIFIED)) == {
        "Name": "in/a.txt",
        "Blob Type": "BlockBlob",
        "Length": 12,
        "Last Modified": "2026-03-01T14:05:06+00:00",
    }


def test_groups_and_accounts_tell_where_they_are():
    group = row(ResourceGroup("s", "g", "eastus"))
    assert group == {"Name": "g", "Location": "eastus", "Status": "Succeeded"}
    account = StorageAccount("s", "g", "acc", "westus")
    assert row(account) == {
        "Name": "acc",
        "Resource Group": "g",
        "Location": "westus",
        "Kind": "Storage",
        "Sku": "Standard_LRS",
    }


def test_the_data_of_a_cluster_count_the_same_nodes():
    data = Result(CLUSTER).data
    assert data["currentNodeCount"] == 15
    assert data["nodeStateCounts"] == {
        "idleNodeCount": 1,
        "leavingNodeCount": 4,
        "preparingNodeCount": 3,
        "runningNodeCount": 2,
        "unusableNodeCount": 5,
    }


def test_the_data_of_a_job_tell_when_it_ran_in_universal_time():
    job = resource(ExecutionState.FAILED, exit_code=3, seconds=34.5678)
    east = timezone(timedelta(hours=2))
    execution = replace(job.execution, started=job.execution.started.astimezone(east))
    data = Result(replace(job, execution=execution)).data
    assert data["executionInfo"] == {
        "endTime": "2026-03-01T12:00:34.567000+00:00",
        "errors": None,
        "exitCode": 3,
        "startTime": "2026-03-01T12:00:00+00:00",
    }


def test_the_data_of_files_tell_no_size_of_a_folder():
    assert Result(SetupFile("a.txt", FileKind.FILE, 12)).data["size"] == 12
    assert Result(SetupFile("logs", FileKind.DIRECTORY, 12)).data["size"] is None
    assert Result(OutputFile("logs", FileKind.DIRECTORY, 12)).data["contentLength"] is None
    assert (
        Result(ShareFile("logs", FileKind.DIRECTORY, 12, MODIFIED)).data["properties"]["contentLength"]
        is None
    )


def test_no_secret_is_among_the_data():
    data = Result(SERVER).data
    assert data["sshConfiguration"]["userAccountSettings"]["adminUserPassword"] is None
