"""What jobs live in and write to: workspaces, resource groups, storage accounts, file servers."""

from __future__ import annotations

import base64
import json

import pytest

from batchai_magics.errors import ConflictError, NotFoundError, SpecError
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import WorkspaceSpec
from tests.contract.place import HOLD, Place

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("service"), pytest.mark.needs("accounts")]


def workspace(place: Place, group: str, name: str) -> ResourceId:
    id = ResourceId(place.workspace.subscription, group, name, Kind.WORKSPACE, name)
    place.backend.create(id, WorkspaceSpec(location="eastus"))
    return id


def test_workspaces_are_listed_by_group(place: Place) -> None:
    ids = [workspace(place, group, name) for group, name in (("one", "b"), ("two", "x"), ("one", "a"))]
    found = place.backend.list(ids[0], Kind.WORKSPACE)
    assert [item.id for item in found] == [ids[0], ids[2]]
    assert {item.location for item in found} == {"eastus"}
    nowhere = ResourceId(place.workspace.subscription, "nowhere", "x", Kind.WORKSPACE, "x")
    assert not place.backend.list(nowhere, Kind.WORKSPACE)


def test_groups_are_made_by_their_workspaces_and_keep_their_spelling_and_tags(place: Place) -> None:
    assert place.workspace.group in [group.name for group in place.backend.groups.list()]
    place.backend.groups.create("Demo", "eastus", {"a": "b"})
    group = place.backend.groups.show("DEMO")
    assert (group.name, group.location, group.tags) == ("Demo", "eastus", {"a": "b"})
    assert place.backend.groups.create("demo", "eastus").tags == {"a": "b"}
    assert place.backend.groups.create("demo", "eastus", {}).tags == {}


def test_deleting_a_group_deletes_workspaces_jobs_and_accounts(place: Place) -> None:
    other = workspace(place, "other", "w")
    place.backend.accounts.create("acc1", "OTHER", "eastus")
    place.backend.groups.delete("Other")
    for ask in (lambda: place.backend.groups.show("other"), lambda: place.backend.groups.delete("other")):
        with pytest.raises(NotFoundError) as caught:
            ask()
        assert caught.value.code == "ResourceGroupNotFound"
    with pytest.raises(NotFoundError):
        place.backend.show(other)
    assert "acc1" not in [account.name for account in place.backend.accounts.list()]
    assert place.backend.show(place.workspace)


@pytest.mark.sample
def test_accounts_have_unique_names_and_two_keys_and_are_deleted_with_their_shares(place: Place) -> None:
    with pytest.raises(SpecError, match="3 to 24"):
        place.backend.accounts.create("No", "g", "eastus")
    made = place.backend.accounts.create("acc1", "g", "eastus")
    assert place.backend.accounts.create("acc1", "G", "eastus") == made
    with pytest.raises(ConflictError, match="already taken"):
        place.backend.accounts.create("acc1", "other", "eastus")
    assert [account.name for account in place.backend.accounts.list("g")] == ["acc1"]
    assert not place.backend.accounts.list("other")
    first, second = place.backend.accounts.keys("acc1")
    assert first != second
    assert len(base64.b64decode(first)) == 64
    place.backend.accounts.renew_key("acc1", 1)
    assert place.backend.accounts.keys("acc1")[1] == second
    assert place.backend.accounts.keys("acc1")[0] != first
    for storage in (place.backend.storage, place.backend.containers):
        storage.make("acc1/data")
    place.backend.accounts.delete("acc1")
    for storage in (place.backend.storage, place.backend.containers):
        assert not [name for name in storage.shares() if name.startswith("acc1")]
    verbs = (place.backend.accounts.show, place.backend.accounts.keys, place.backend.accounts.delete)
    for verb in verbs:
        with pytest.raises(NotFoundError) as caught:
            verb("acc1")
        assert caught.value.code == "StorageAccountNotFound"


# file servers


@pytest.mark.sample
@pytest.mark.needs("file_servers")
def test_a_file_server_keeps_what_jobs_write_to_it(place: Place) -> None:
    missing = {"fileServer": {"id": str(place.workspace.child(Kind.FILE_SERVER, "nope"))}}
    volumes = {"mountVolumes": {"fileServers": [{**missing, "relativeMountPath": "nfs"}]}}
    with pytest.raises(NotFoundError, match="file server nope"):
        place.make_cluster(nodeSetup=volumes)
    server = place.make_server()
    wire = json.dumps(server.to_wire())
    assert server.to_wire()["properties"]["mountSettings"]["mountPoint"] == "/data"
    assert "hush" not in wire + repr(server)
    mount = {"fileServers": [{"fileServer": {"id": str(server.id)}, "relativeMountPath": "nfs"}]}
    note = "$AZ_BATCHAI_MOUNT_ROOT/nfs/note"
    for name in ("one", "two"):
        cluster = place.make_cluster(name, nodeSetup={"mountVolumes": mount})
        job = place.run(f"echo {name} >> {note}; cat {note}", name, **place.on(cluster))
    assert place.log(job.id) == b"one\ntwo\n"
    assert [item.id for item in place.backend.list(place.workspace, Kind.FILE_SERVER)] == [server.id]
    place.backend.delete(server.id)
    assert not place.backend.list(place.workspace, Kind.FILE_SERVER)


def test_an_account_whose_shares_a_job_uses_is_not_deleted_under_it(place: Place) -> None:
    place.backend.accounts.create("used", "g", "eastus")
    place.backend.accounts.create("unused", "g", "eastus")
    mount = {
        "accountName": "used",
        "azureFileUrl": "https://used.file.core.windows.net/data",
        "relativeMountPath": "data",
        "credentials": {"accountKey": place.backend.accounts.keys("used")[0]},
    }
    job = place.start(HOLD, mountVolumes={"azureFileShares": [mount]})
    with pytest.raises(ConflictError, match="Jobs use shares of the account used") as caught:
        place.backend.accounts.delete("used")
    assert (caught.value.code, job.name in caught.value.hint) == ("StorageAccountInUse", True)
    place.backend.accounts.delete("unused")
    place.backend.terminate(job)
    place.wait(job)
    place.backend.accounts.delete("used")


# owners


@pytest.mark.needs("ownership")
def test_an_owner_is_recorded_with_the_resource_and_forgotten_with_it(place: Place) -> None:
    job, spec = place.experiment.child(Kind.JOB, "owned"), place.spec("true")
    place.backend.create(job, spec, owner="alice")
    place.backend.create(job, spec, owner="bob")  # the same again changes nothing
    for holder in (job, place.experiment, place.workspace):
        assert place.backend.ownership.owners(holder.key)[job.key] == "alice"
    group = job.key.partition("/providers/")[0]
    assert place.backend.ownership.owners(group)[job.key] == "alice"
    assert job.key not in place.backend.ownership.owners(job.key[:-1])
    id = ResourceId(place.workspace.subscription, "owned", "w", Kind.WORKSPACE, "w")
    place.backend.create(id, WorkspaceSpec(location="eastus"), owner="alice")
    assert place.backend.ownership.owners(id.key) == {id.key: "alice"}
    place.backend.delete(id)
    place.backend.create(id, WorkspaceSpec(location="eastus"))
    assert not place.backend.ownership.owners(id.key)
