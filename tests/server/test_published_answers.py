"""What genuine clients get is what the service sent; our own client gets what it asks for beside that."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from batchai_magics.backends.service.extension_wire import OWN_CLIENT
from tests.server.published_api import own_keys
from tests.server.running import GROUP, SUBSCRIPTION, Running
from tests.server.storage.signed_urls import signed_path
from tests.wire_bodies import USER, plain_cluster, plain_job
from tests.world import until

pytestmark = pytest.mark.slow
WORKSPACE = f"{GROUP}/providers/Microsoft.BatchAI/workspaces/recorded"
FILE_SERVER, CLUSTER = f"{WORKSPACE}/fileServers/nfs", f"{WORKSPACE}/clusters/cluster"
JOBS = f"{WORKSPACE}/experiments/experiment/jobs"
OWN = {OWN_CLIENT: "1"}
VOLUMES = {
    "azureFileShares": [
        {
            "accountName": "psdk",
            "azureFileUrl": "https://psdk.file.core.windows.net/share",
            "relativeMountPath": "azfiles",
        }
    ],
    "azureBlobFileSystems": [
        {"accountName": "psdk", "containerName": "container", "relativeMountPath": "blobs"}
    ],
    "fileServers": [{"fileServer": {"id": FILE_SERVER}, "relativeMountPath": "nfs"}],
}
SCRIPT = (
    "mkdir -p $AZ_BATCHAI_OUTPUT_MODEL/deep; echo weights > $AZ_BATCHAI_OUTPUT_MODEL/deep/model.txt;"
    " echo notes > $AZ_BATCHAI_OUTPUT_NOTES/notes.txt; echo printed; exit 3"
)


@pytest.fixture(scope="module")
def job(server: Running) -> str:
    """A job that has failed, on a cluster with a share, a container and a file server."""
    disks = {"diskSizeInGB": 10, "diskCount": 2, "storageAccountType": "Standard_LRS"}
    server.json("PUT", WORKSPACE, json={"location": "North Europe", "tags": {"batchaiOwner": "me"}})
    server.json("PUT", f"{WORKSPACE}/experiments/experiment")
    ssh = {"userAccountSettings": USER}
    made = {"vmSize": "STANDARD_D1", "sshConfiguration": ssh, "dataDisks": disks}
    assert server.ask("PUT", FILE_SERVER, json={"properties": made}).ok
    cluster = plain_cluster(vmPriority="LowPriority", nodeSetup={"mountVolumes": VOLUMES})
    assert server.ask("PUT", CLUSTER, json=cluster).ok
    outputs = [
        {"id": "MODEL", "pathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/blobs/", "pathSuffix": "models"},
        {"id": "NOTES", "pathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/nfs"},
    ]
    logs = "$AZ_BATCHAI_MOUNT_ROOT/azfiles/logs"
    run = plain_job(CLUSTER, SCRIPT, stdOutErrPathPrefix=logs, outputDirectories=outputs)
    path = f"{JOBS}/failing"
    assert server.ask("PUT", path, json=run).ok
    until(lambda: server.json("GET", path)["properties"]["executionState"] == "failed")
    return path


def urls(server: Running, job: str, directory_id: str, folder: str = ".") -> dict[str, str]:
    query = {"outputdirectoryid": directory_id, "directory": folder}
    files = server.json("POST", f"{job}/listOutputFiles", params=query)["value"]
    return {file["name"]: file["downloadUrl"] for file in files if file["fileType"] == "file"}


def segment(server: Running, job: str) -> str:
    return server.json("GET", job)["properties"]["jobOutputDirectoryPathSegment"]


def test_our_own_keys_are_told_to_our_own_client_alone(server: Running, job: str) -> None:
    asked = [
        ("GET", job),
        ("GET", JOBS),
        ("GET", f"{job}x"),
        ("POST", f"{CLUSTER}/listRemoteLoginInformation"),
    ]
    for method, path in asked:
        assert own_keys(server.ask(method, path).json()) == []
        assert own_keys(server.ask(method, path, headers=OWN).json()) != []


def test_an_error_of_a_job_has_no_details_that_the_service_did_not_tell(server: Running, job: str) -> None:
    told, own = (server.json("GET", job, headers=headers) for headers in ({}, OWN))
    (error,) = told["properties"]["executionInfo"]["errors"]
    assert error == {"code": "JobFailed", "message": "Job failed with non-zero exit code"}
    (error,) = own["properties"]["executionInfo"]["errors"]
    assert {detail["name"] for detail in error["details"]} == {"failedRank", "failedNode", "exitCode"}


def test_an_error_of_storage_has_our_own_elements_for_our_own_client_alone(server: Running, job: str) -> None:
    path = signed_path(server, "batchaishare", "nothing.txt")
    told, own = (server.ask("GET", path, token=None, headers=headers) for headers in ({}, OWN))
    assert told.status_code == own.status_code == 404
    assert "batchai" not in told.text.replace("batchaishare", "")
    assert "<batchaiKind>NotFoundError</batchaiKind>" in own.text
    assert told.headers["x-ms-error-code"] == own.headers["x-ms-error-code"]


def test_keys_of_tags_are_their_users(server: Running, job: str) -> None:
    assert server.json("GET", WORKSPACE)["tags"] == {"batchaiOwner": "me"}


def test_a_file_server_has_a_subnet_and_so_has_a_cluster_that_mounts_it(server: Running, job: str) -> None:
    shown = server.json("GET", FILE_SERVER)["properties"]["subnet"]["id"]
    assert shown.startswith(f"/subscriptions/{SUBSCRIPTION}/resourceGroups/fileserverrg-")
    assert shown.endswith("/subnets/Subnet-1")
    (listed,) = server.json("GET", f"{WORKSPACE}/fileServers")["value"]
    assert listed["properties"]["subnet"]["id"] == shown
    assert server.json("GET", CLUSTER)["properties"]["subnet"]["id"] == shown
    assert "subnet" not in server.json("GET", CLUSTER, headers=OWN)["properties"]


def test_a_priority_in_any_case_is_told_as_the_service_spelled_it(server: Running, job: str) -> None:
    assert server.json("GET", CLUSTER)["properties"]["vmPriority"] == "lowpriority"


def test_any_location_is_kept_as_given_and_part_of_operation_urls(server: Running, job: str) -> None:
    assert server.json("GET", WORKSPACE)["location"] == "North Europe"
    answer = server.ask("DELETE", f"{JOBS}/none")
    assert answer.status_code == 204
    answer = server.ask("PUT", f"{CLUSTER}2", json=plain_cluster(0))
    addresses = [answer.headers[name] for name in ("Azure-AsyncOperation", "Location")]
    assert all("/locations/northeurope/operation" in address for address in addresses)
    operation = server.json("GET", urlsplit(addresses[0]).path)
    assert operation["id"] == addresses[0].partition("?")[0]


def test_a_log_is_downloaded_from_its_share(server: Running, job: str) -> None:
    url = urlsplit(urls(server, job, "stdouterr")["stdout.txt"])
    assert url.path == f"/psdk/share/logs/{segment(server, job)}/stdouterr/stdout.txt"
    query = parse_qs(url.query)
    assert (query["sr"], query["sv"], query["sp"]) == (["f"], ["2016-05-31"], ["rl"])
    answer = requests.get(url.geturl())
    assert (answer.content, answer.headers["x-ms-type"]) == (b"printed\n", "File")


def test_a_file_of_a_container_is_downloaded_as_a_blob(server: Running, job: str) -> None:
    url = urlsplit(urls(server, job, "model", "deep")["model.txt"])
    assert url.path == f"/psdk/container/{segment(server, job)}/outputs/models/deep/model.txt"
    assert parse_qs(url.query)["sr"] == ["b"]
    answer = requests.get(url.geturl(), headers={"Range": "bytes=0-3"})
    assert (answer.status_code, answer.content) == (206, b"weig")
    assert answer.headers["x-ms-blob-type"] == "BlockBlob"


def test_an_address_is_for_its_own_file_share_and_account(server: Running, job: str) -> None:
    url = urls(server, job, "stdouterr")["stdout.txt"]
    for other in (
        url.replace("stdout.txt", "stderr.txt"),
        url.replace("/psdk/share/", "/psdk/other/"),
        url.replace("/psdk/", "/local/"),
        url.replace("sr=f", "sr=b"),
        url.replace("sp=rl", "sp=rwl"),
    ):
        assert requests.get(other).status_code == 403
    assert requests.put(url, data=b"x").status_code == 403
    assert requests.delete(url).status_code == 403
