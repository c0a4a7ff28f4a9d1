"""Nodes that are set up, and that leave: what they still prepare ends, and their folders go."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from batchai_magics.backends.base import CommandEnd
from batchai_magics.backends.local import process
from batchai_magics.backends.local.settings import LocalSettings
from tests.backends.local.still import Still
from tests.contract.place import MOUNTED
from tests.world import World, until

pytestmark = pytest.mark.slow
SHARE = {
    "accountName": "acc",
    "azureFileUrl": "https://acc.file.core.windows.net/data",
    "relativeMountPath": "d",
    "credentials": {"accountKey": "k"},
}


def set_up_by(command: str) -> dict[str, object]:
    """The fields of a cluster whose nodes are set up by a command."""
    return {"nodeSetup": {"setupTask": {"commandLine": command, "stdOutErrPathPrefix": MOUNTED}}}


def test_a_node_that_leaves_takes_its_setup_and_its_folder_with_it(world: World) -> None:
    cluster = world.make_cluster(2, **set_up_by("sleep 1000"))
    ids = [node.id for node in world.backend.nodes(cluster.id)]
    until(lambda: all(process.marked(id) for id in ids))
    world.resize(cluster.id, 1)
    (stays,) = [node.id for node in world.backend.nodes(cluster.id)]
    (leaves,) = set(ids) - {stays}
    assert process.marked(stays)
    assert not process.marked(leaves)
    until(lambda: {path.name for path in world.home.glob("clusters/*/nodes/tvm-*")} & set(ids) == {stays})
    world.resize(cluster.id, 0)
    assert not process.marked(stays)


def test_a_killed_setup_task_makes_the_node_unusable(world: World) -> None:
    cluster = world.make_cluster(**set_up_by("sleep 1000"))
    (node,) = world.backend.nodes(cluster.id)
    until(lambda: process.marked(node.id))
    with world.backend.store.read() as db:
        (name,) = db.execute("SELECT preparer FROM node WHERE id = ?", (node.id,)).fetchone()
    os.kill(process.pid_of(name), signal.SIGKILL)
    until(lambda: world.backend.show(cluster.id).node_states.unusable_node_count == 1)
    until(lambda: not process.marked(node.id))


def test_node_is_unusable_if_the_output_of_its_setup_task_cannot_be_written(tmp_path: Path) -> None:
    world = World(tmp_path / "home", limits=LocalSettings(disk_grace_s=0.5))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, limits[1]))  # which the setup task inherits
    try:
        cluster = world.make_cluster(**set_up_by("trap '' XFSZ; head -c 9000000 /dev/zero; exit 0"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    until(lambda: not world.backend.show(cluster.id).node_states.preparing_node_count)
    assert world.backend.show(cluster.id).node_states.unusable_node_count == 1


def test_looking_at_a_node_that_is_being_prepared_brings_no_deleted_share_back(still: Still) -> None:
    task = {"commandLine": "true", "stdOutErrPathPrefix": MOUNTED}
    still.cluster(nodeSetup={"setupTask": task, "mountVolumes": {"azureFileShares": [SHARE]}})
    still.prepare()
    folder = still.layout.share("acc", "data")
    folder.rmdir()
    still.prepare()
    assert not folder.exists()


def test_closing_the_output_of_a_command_ends_its_background_processes(world: World) -> None:
    (node, *_) = world.backend.nodes(world.cluster)
    command = "trap '' TERM; sleep 1000 & echo $! $PPID"
    output = world.backend.node_commands.execute(world.cluster, node.id, command)
    left, program = map(int, next(output).data.split())
    until(lambda: not process.identity(program))
    assert process.identity(left)
    output.close()
    assert not process.identity(left)


def test_a_command_ends_with_the_program_that_runs_it(world: World) -> None:
    (node, *_) = world.backend.nodes(world.cluster)
    output = world.backend.node_commands.execute(world.cluster, node.id, "echo $$ $PPID; sleep 1000")
    shell, program = map(int, next(output).data.split())
    os.kill(program, signal.SIGINT)
    assert list(output) == [CommandEnd(128 + signal.SIGTERM)]
    assert not process.identity(shell)
