"""What only this backend can show of clusters: its files, its processes, its rows."""

from __future__ import annotations

import os
import signal

import pytest

from batchai_magics.backends.local.watch import process
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import Cluster
from tests.world import World, until

pytestmark = pytest.mark.slow


def make(world: World, command: str, **fields: object) -> Cluster:
    """A cluster of one node with a setup task."""
    task = {"commandLine": command, "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/autoafs", **fields}
    properties = {
        "vmSize": "STANDARD_D1",
        "userAccountSettings": {"adminUserName": "me", "adminUserPassword": "hush"},
        "scaleSettings": {"manual": {"targetNodeCount": 1}},
        "nodeSetup": {"setupTask": task},
    }
    spec = ClusterSpec.from_wire({"properties": properties})
    return world.backend.create(world.workspace.child(Kind.CLUSTER, "c"), spec)


def test_a_killed_setup_task_makes_the_node_unusable(world: World) -> None:
    cluster = make(world, "sleep 1000")
    (node,) = world.backend.nodes(cluster.id)
    until(lambda: process.marked(node.id))
    with world.backend.store.read() as db:
        (name,) = db.execute("SELECT preparer FROM node WHERE id = ?", (node.id,)).fetchone()
    os.kill(process.pid_of(name), signal.SIGKILL)
    until(lambda: world.backend.show(cluster.id).node_states.unusable_node_count == 1)
    until(lambda: not process.marked(node.id))


def test_a_failed_setup_says_what_it_printed_last(world: World) -> None:
    cluster = make(world, "echo begin; echo uv is not installed >&2; exit 4")
    until(lambda: world.backend.show(cluster.id).node_states.unusable_node_count == 1)
    (error,) = world.backend.show(cluster.id).errors
    assert error.message.startswith("Setup failed on node 1: uv is not installed (exit code 4); its output")
