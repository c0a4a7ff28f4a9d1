"""Nodes that leave: what they still prepare ends, and their folders go."""

from __future__ import annotations

import pytest

from batchai_magics.backends.local.watch import process
from batchai_magics.models.cluster_spec import ClusterPatch, ClusterSpec
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import Cluster
from tests.backends.local.still import Still
from tests.contract.place import MOUNTED
from tests.world import World, processes_of, until

pytestmark = pytest.mark.slow
SHARE = {
    "accountName": "acc",
    "azureFileUrl": "https://acc.file.core.windows.net/data",
    "relativeMountPath": "d",
    "credentials": {"accountKey": "k"},
}


def make(world: World, count: int, command: str) -> Cluster:
    """A cluster whose nodes are set up by a command."""
    properties = {
        "vmSize": "STANDARD_D1",
        "userAccountSettings": {"adminUserName": "me", "adminUserPassword": "hush"},
        "scaleSettings": {"manual": {"targetNodeCount": count}},
        "nodeSetup": {
            "setupTask": {"commandLine": command, "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/autoafs"}
        },
    }
    spec = ClusterSpec.from_wire({"properties": properties})
    return world.backend.create(world.workspace.child(Kind.CLUSTER, "c"), spec)


def resize(world: World, cluster: Cluster, count: int) -> None:
    scale = {"scaleSettings": {"manual": {"targetNodeCount": count}}}
    world.backend.update(cluster.id, ClusterPatch.from_wire({"properties": scale}))


def test_a_node_that_leaves_takes_its_setup_and_its_folder_with_it(world: World) -> None:
    cluster = make(world, 2, "sleep 1000")
    ids = [node.id for node in world.backend.nodes(cluster.id)]
    until(lambda: all(process.marked(id) for id in ids))
    resize(world, cluster, 1)
    (stays,) = [node.id for node in world.backend.nodes(cluster.id)]
    (leaves,) = set(ids) - {stays}
    assert process.marked(stays)
    assert not process.marked(leaves)
    until(lambda: {path.name for path in world.home.glob("clusters/*/nodes/tvm-*")} & set(ids) == {stays})
    resize(world, cluster, 0)
    assert not process.marked(stays)


def test_a_deleted_cluster_ends_its_setup(world: World) -> None:
    cluster = make(world, 1, "sleep 1000")
    (node,) = world.backend.nodes(cluster.id)
    until(lambda: process.marked(node.id))
    world.backend.delete(cluster.id)
    assert not process.marked(node.id)
    until(lambda: not processes_of(world.home))


def test_a_node_that_idled_away_leaves_no_folder(world: World) -> None:
    cluster = make(world, 2, "true")
    until(lambda: world.backend.show(cluster.id).node_states.idle_node_count == 2)
    resize(world, cluster, 0)
    until(lambda: len(list(world.home.glob("clusters/*/nodes/tvm-*"))) == 2)  # the default cluster's


def test_looking_at_a_node_that_is_being_prepared_brings_no_deleted_share_back(still: Still) -> None:
    task = {"commandLine": "true", "stdOutErrPathPrefix": MOUNTED}
    still.cluster(nodeSetup={"setupTask": task, "mountVolumes": {"azureFileShares": [SHARE]}})
    still.prepare()
    folder = still.layout.share("acc", "data")
    folder.rmdir()
    still.prepare()
    assert not folder.exists()
