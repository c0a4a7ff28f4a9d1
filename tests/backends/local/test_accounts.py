"""Resource groups, storage accounts, containers, and uploads that go on where they stopped."""

from __future__ import annotations

import base64
import hashlib

import pytest

from batchai_magics.backends.base import WorkspaceSpec
from batchai_magics.errors import ConflictError, NotFoundError, SpecError, StorageError
from batchai_magics.models.ids import Kind, ResourceId
from tests.world import World

pytestmark = pytest.mark.slow


def test_a_workspace_makes_its_group(world: World) -> None:
    assert [group.name for group in world.backend.groups.list()] == ["batchai"]


def test_groups_keep_their_spelling_and_tags(world: World) -> None:
    world.backend.groups.create("Demo", "eastus", {"a": "b"})
    group = world.backend.groups.show("DEMO")
    assert (group.name, group.location, group.tags) == ("Demo", "eastus", {"a": "b"})


def test_deleting_a_group_deletes_workspaces_jobs_and_accounts(world: World) -> None:
    other = ResourceId("s", "other", "w", Kind.WORKSPACE, "w")
    world.backend.create(other, WorkspaceSpec("eastus"))
    world.backend.accounts.create("acc1", "OTHER", "eastus")
    world.backend.delete_group("Other")
    with pytest.raises(NotFoundError) as caught:
        world.backend.groups.show("other")
    assert caught.value.code == "ResourceGroupNotFound"
    with pytest.raises(NotFoundError):
        world.backend.show(other)
    assert not world.backend.accounts.list()
    assert world.backend.show(world.workspace)


def test_an_account_has_two_keys_of_azures_form(world: World) -> None:
    world.backend.accounts.create("acc1", "g", "eastus")
    first, second = world.backend.accounts.keys("acc1")
    assert first != second
    assert len(base64.b64decode(first)) == 64
    world.backend.accounts.renew_key("acc1", 1)
    assert world.backend.accounts.keys("acc1")[1] == second
    assert world.backend.accounts.keys("acc1")[0] != first


def test_account_names_are_checked_and_unique(world: World) -> None:
    with pytest.raises(SpecError, match="3 to 24"):
        world.backend.accounts.create("No", "g", "eastus")
    made = world.backend.accounts.create("acc1", "g", "eastus")
    assert world.backend.accounts.create("acc1", "G", "eastus") == made
    with pytest.raises(ConflictError, match="already taken"):
        world.backend.accounts.create("acc1", "other", "eastus")


def test_deleting_an_account_deletes_its_shares(world: World) -> None:
    world.backend.accounts.create("acc1", "g", "eastus")
    world.backend.storage.make("acc1/data")
    world.backend.containers.make("acc1/blobs")
    world.backend.accounts.delete("acc1")
    assert not [s for s in world.backend.storage.shares() if s.startswith("acc1")]
    assert not [c for c in world.backend.containers.shares() if c.startswith("acc1")]


def test_shares_and_containers_of_one_name_are_two_things(world: World) -> None:
    for place, content in ((world.backend.storage, b"1"), (world.backend.containers, b"2")):
        place.make("acc1/data")
        place.upload("acc1/data", {"x": content})
    assert world.backend.storage.download("acc1/data", "x") == b"1"
    world.backend.storage.remove("acc1/data")
    assert world.backend.containers.download("acc1/data", "x") == b"2"


def test_an_upload_goes_on_where_it_stopped_and_appears_when_whole(world: World) -> None:
    storage, data = world.backend.storage, bytes(range(256)) * 100
    storage.make("data")
    assert storage.begin("data", "a/b", len(data)) == 0
    storage.write("data", "a/b", 0, data[:10_000])
    assert storage.list("data", "a") == []
    assert storage.begin("data", "a/b", len(data)) == 10_000
    storage.write("data", "a/b", 10_000, data[10_000:])
    storage.finish("data", "a/b", hashlib.sha256(data).hexdigest())
    assert storage.download("data", "a/b") == data
    assert storage.read("data", "a/b", 255, 3) == b"\xff\x00\x01"


def test_a_damaged_upload_never_appears(world: World) -> None:
    storage = world.backend.storage
    storage.make("data")
    storage.begin("data", "a", 3)
    storage.write("data", "a", 0, b"bad")
    with pytest.raises(StorageError, match="damaged"):
        storage.finish("data", "a", hashlib.sha256(b"sad").hexdigest())
    assert storage.list("data") == []
    assert storage.begin("data", "a", 3) == 0
