"""Mounts of a job: by `--mount`, and as recipes have them, whose storage account `az` filled in."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from batchai_magics.cell import CellRequest, Notebook, describe, parse
from batchai_magics.errors import SpecError, UsageError
from tests.cell.parsed_cells import JOB_JSON, SETTINGS, cell, fields, refused


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


def test_mount_option_is_added_to_the_mounts_of_a_job_json():
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
def test_invalid_mount_is_refused(text, says):
    assert says in refused(f"r --mount {text}", kind=(UsageError, SpecError))


@pytest.mark.parametrize("shares", [True, "data", {"a": 1}])
def test_mount_option_is_refused_if_the_file_shares_of_the_body_are_no_list(shares):
    body = json.dumps({"properties": {"nodeCount": 1, "mountVolumes": {"azureFileShares": shares}}})
    with pytest.raises(SpecError, match=r"properties\.mountVolumes\.azureFileShares: expected a list"):
        cell("job --spec --mount data", body)


ACCOUNT, KEY = "<AZURE_BATCHAI_STORAGE_ACCOUNT>", "<AZURE_BATCHAI_STORAGE_KEY>"
OPEN = {"credentials": {"accountKey": KEY}}
SHARE = {"azureFileUrl": f"https://{ACCOUNT}.file.core.windows.net/logs", "relativeMountPath": "logs"}
CONTAINER = {"containerName": "data", "relativeMountPath": "data"}


def recipe(*, shares: list[dict[str, Any]], containers: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "properties": {
            "nodeCount": 1,
            "stdOutErrPathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/logs",
            "customToolkitSettings": {"commandLine": "true"},
            "mountVolumes": {"azureFileShares": shares, "azureBlobFileSystems": containers},
        }
    }


RECIPE = recipe(
    shares=[SHARE, {**SHARE, **OPEN, "accountName": ACCOUNT, "relativeMountPath": "scripts"}],
    containers=[{**CONTAINER, **OPEN, "accountName": ACCOUNT}],
)


def request_for(
    folder: Path, options: str = "", *, description: object = RECIPE, backend: str = "local", **env: str
) -> CellRequest:
    (folder / "job.json").write_text(json.dumps(description))
    settings = replace(SETTINGS, backend=backend)
    return parse(
        f"r --file job.json {options}", "", settings=settings, notebook=Notebook(folder=folder, env=env)
    )


def accounts(request: CellRequest) -> list[tuple[str, object]]:
    """The account of each mount and its key."""
    volumes = request.spec.to_wire(secrets=True)["properties"]["mountVolumes"]
    mounts = [mount for kind in ("azureFileShares", "azureBlobFileSystems") for mount in volumes[kind]]
    return [(mount["accountName"], (mount.get("credentials") or {}).get("accountKey")) for mount in mounts]


@pytest.mark.parametrize("backend", ["local", "slurm", "of-another-package"])
def test_mounts_without_an_account_use_the_default_one_which_is_reported_once(tmp_path, backend):
    request = request_for(tmp_path, backend=backend)
    assert accounts(request) == [("local", None)] * 3
    assert request.notes == ("job.json: mounts without a storage account use the default one, local",)
    (first, *_) = request.spec.mount_volumes.azure_file_shares
    assert first.azure_file_url == "https://local.file.core.windows.net/logs"


def test_a_container_that_leaves_its_account_out_uses_the_default_one(tmp_path):
    request = request_for(tmp_path, description=recipe(shares=[], containers=[CONTAINER]))
    assert accounts(request) == [("local", None)]
    assert len(request.notes) == 1


def test_mounts_that_name_their_account_keep_it(tmp_path):
    named = {**CONTAINER, "accountName": "theirs"}
    request = request_for(tmp_path, description=recipe(shares=[], containers=[named]))
    assert (accounts(request), request.notes) == ([("theirs", None)], ())


@pytest.mark.parametrize("backend", ["local", "arm"])
def test_account_and_key_are_taken_from_options(tmp_path, backend):
    line = "--storage-account-name acct --storage-account-key s3cret"
    request = request_for(tmp_path, line, backend=backend, AZURE_BATCHAI_STORAGE_ACCOUNT="other")
    assert accounts(request) == [("acct", "s3cret")] * 3
    assert request.notes == ()
    assert "s3cret" not in describe(request) + repr(request)


def test_an_account_without_a_key_needs_none_where_the_backend_keeps_the_shares(tmp_path):
    assert accounts(request_for(tmp_path, "--storage-account-name acct")) == [("acct", None)] * 3


def test_service_needs_account_and_key_and_the_error_names_the_options(tmp_path):
    with pytest.raises(SpecError) as caught:
        request_for(tmp_path, backend="arm")
    for path, option in [
        ("azureFileShares[0]", "--storage-account-name"),
        ("azureBlobFileSystems[0]", "--storage-account-key"),
    ]:
        assert any(path in line and f"(or give {option})" in line for line in str(caught.value).splitlines())
