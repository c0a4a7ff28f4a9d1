"""Prepares nodes: folders and links at once, mount commands and setup tasks in a separate process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local.state import node_table
from batchai_magics.backends.local.state.node_table import NewNode
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import detached_process, process
from batchai_magics.backends.node import elevation
from batchai_magics.backends.service import private_files

if TYPE_CHECKING:
    from batchai_magics.models.cluster_spec import ClusterSpec


def prepare(
    store: Store, layout: Layout, *, secrets: Mapping[str, str] | None = None
) -> list[subprocess.Popen[bytes]]:
    """Prepares every new node; returns the processes that run mount commands and setup tasks."""
    with store.read() as db:
        new = node_table.preparing(db)
    return [child for node in new for child in _prepare(store, layout, node, secrets or {})]


def _prepare(
    store: Store, layout: Layout, node: NewNode, secrets: Mapping[str, str]
) -> list[subprocess.Popen[bytes]]:
    from batchai_magics.backends.folders import mounts  # loads the models; usually no node is new

    spec = _description(node)
    volumes = spec.node_setup.mount_volumes if spec.node_setup else None
    temp = layout.tmpdir(node.guid, node.id)
    if not temp.exists():  # a later pass must not recreate a deleted share
        mounts.link(layout, layout.mounts(node.guid), volumes)
        private_files.make_folder(temp)
    if not _is_work(spec):
        finish_preparation(store, node.id, "")
    elif not node.preparer:
        return _start(store, layout, node, secrets)
    elif not process.is_alive(node.preparer):
        finish_preparation(store, node.id, "The process that prepared the node disappeared")
    return []


def _is_work(spec: ClusterSpec) -> bool:
    """Whether nodes of the cluster have a setup task or mount commands."""
    asked = spec.node_setup
    if asked is None:
        return False
    volumes = asked.mount_volumes
    return asked.setup_task is not None or bool(volumes and volumes.unmanaged_file_systems)


def _description(node: NewNode) -> ClusterSpec:
    from batchai_magics.models.cluster_spec import ClusterSpec

    return ClusterSpec.from_wire(json.loads(node.spec))


def finish_preparation(store: Store, node: str, problem: str) -> None:
    """Records that a node is ready, or why it is unusable."""
    with store.write() as db:
        node_table.finish_preparation(db, node, problem)


def _start(
    store: Store, layout: Layout, node: NewNode, secrets: Mapping[str, str]
) -> list[subprocess.Popen[bytes]]:
    spec = _description(node)
    missing = _missing(spec, secrets)
    if missing:
        text = f"The setup task's secrets ({', '.join(missing)}) are not kept: create the cluster again"
        finish_preparation(store, node.id, text)
        return []
    folder = layout.node(node.guid, node.id)
    try:
        _write_plan(layout, node, spec)
    except FileNotFoundError:  # the node was removed meanwhile
        return []
    program = detached_process.Program(
        "node_preparer", (str(layout.home), node.id), sys.executable, folder / "log"
    )
    with store.write() as db:
        is_ours = node_table.claim(db, node.id, process.own_identity())
    if not is_ours:
        return []
    child = detached_process.start(program, secrets=secrets)
    with store.write() as db:
        node_table.set_preparer(db, node.id, process.identity(child.pid))
    return [child]


def _write_plan(layout: Layout, node: NewNode, spec: ClusterSpec) -> None:
    """Writes what the node mounts and runs; FileNotFoundError if its folder is gone."""
    # Imported late: most nodes have nothing to set up.
    from batchai_magics.backends.folders import mounts
    from batchai_magics.launch.job_site import NodeShare
    from batchai_magics.launch.planning import setup

    asked, folder = spec.node_setup, layout.node(node.guid, node.id)
    assert asked, "only clusters with something to set up get here"
    exits, logs = folder / "exits", ""
    if asked.setup_task:
        exits.mkdir(exist_ok=True, mode=private_files.FOLDER)
        path = mounts.setup_logs(layout, spec)
        private_files.make_folder(path)
        logs = str(path)
    root = str(layout.mounts(node.guid))
    share = NodeShare(node.id, 0, root, root, str(folder), tmpdir=str(layout.tmpdir(node.guid, node.id)))
    plan = setup(asked, share, python=sys.executable, exits=str(exits), logs=logs)
    if asked.setup_task and asked.setup_task.run_elevated:
        plan = elevation.run_elevated(plan)
    plan.write(str(layout.setup(node.guid, node.id)))


def _missing(spec: ClusterSpec, secrets: Mapping[str, str]) -> list[str]:
    """The names of the setup task's secrets whose values are lost."""
    task = spec.node_setup.setup_task if spec.node_setup else None
    return [item.name for item in (task.secrets if task else None) or () if item.name not in secrets]
