"""What `--mount` says becomes a mount of the job."""

import json

import pytest

from batchai_magics.cell import describe
from batchai_magics.errors import SpecError, UsageError
from tests.cell.parsed_cells import JOB_JSON, cell, fields, refused


def test_a_mount_is_a_share_a_container_or_a_file_server():
    volumes = fields("r --mount data --mount bfs:images=in/images --mount NFS:store=nfs", env={})[
        "mountVolumes"
    ]
    (share,), (container,), (server,) = (
        volumes[kind] for kind in ("azureFileShares", "azureBlobFileSystems", "fileServers")
    )
    assert share["azureFileUrl"] == "https://local.file.core.windows.net/data"
    assert (share["accountName"], share["relativeMountPath"]) == ("local", "data")
    assert (container["containerName"], container["relativeMountPath"]) == ("images", "in/images")
    assert server["fileServer"]["id"].endswith("/workspaces/default/fileservers/store")
    assert server["relativeMountPath"] == "nfs"


def test_a_mount_is_of_the_account_that_the_environment_names():
    env = {"AZURE_BATCHAI_STORAGE_ACCOUNT": "acct", "AZURE_BATCHAI_STORAGE_KEY": "s3cret"}
    share = fields("r --mount data", env=env)["mountVolumes"]["azureFileShares"][0]
    assert share["azureFileUrl"] == "https://acct.file.core.windows.net/data"
    assert share["credentials"] == {"accountKey": "s3cret"}
    assert "s3cret" not in describe(cell("r --mount data", env=env))


def test_a_mount_without_a_key_carries_no_empty_one():
    share = fields("r --mount data", env={})["mountVolumes"]["azureFileShares"][0]
    assert share["credentials"] == {}


def test_a_mount_comes_beside_those_of_a_job_json():
    share = "accountName: a, azureFileUrl: 'https://a.file.core.windows.net/s', credentials: {accountKey: k}"
    volumes = f"  mountVolumes: {{azureFileShares: [{{{share}, relativeMountPath: s}}]}}\n"
    shares = fields("r --spec --mount data", JOB_JSON + volumes, env={})["mountVolumes"]["azureFileShares"]
    assert [share["relativeMountPath"] for share in shares] == ["s", "data"]
    assert "more than one volume is mounted at s" in refused(
        "r --spec --mount bfs:data=s", JOB_JSON + volumes, kind=SpecError, env={}
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("asf:data", "unknown kind 'asf'\nDid you mean \"afs\"?"),
        ("bfs:", "expected [afs:|bfs:|nfs:]NAME[=PATH]"),
        ("data=", "such as --mount data=datasets"),
        ("data=../up", "relativeMountPath"),
    ],
)
def test_a_mount_that_is_none_is_refused(text, says):
    assert says in refused(f"r --mount {text}", kind=(UsageError, SpecError))


@pytest.mark.parametrize("shares", [True, "data", {"a": 1}])
def test_a_mount_beside_shares_that_are_no_list_is_refused_with_their_place(shares):
    body = json.dumps({"properties": {"nodeCount": 1, "mountVolumes": {"azureFileShares": shares}}})
    with pytest.raises(SpecError, match=r"properties\.mountVolumes\.azureFileShares: expected a list"):
        cell("job --spec --mount data", body)
