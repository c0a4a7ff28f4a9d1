"""Nodes are made ready: folder and links at once, mount commands and setup task by a process of their own."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping

from batchai_magics.backends.local.folders import mounts
from batchai_magics.backends.local.folders.layout import Layout
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import detached, process
from batchai_magics.backends.local.watch.setup_plan import plan_of_setup
from batchai_magics.launch.planning import mount_commands
from batchai_magics.models.cluster import ClusterSpec

QUERY = (
    "SELECT node.id, node.preparer, cluster.guid, cluster.key, resource.spec, resource.id AS cluster_id"
    " FROM node JOIN cluster ON cluster.key = node.cluster JOIN resource ON resource.key = node.cluster"
    " WHERE node.state = 'preparing'"
)


def prepare(
    store: Store, layout: Layout, *, secrets: Mapping[str, str] | None = None
) -> list[subprocess.Popen[bytes]]:
    """Makes ready every node that is not yet; gives the processes that run setup tasks and mount commands."""
    with store.read() as db:
        rows = db.execute(QUERY).fetchall()
    return [child for row in rows for child in _prepare(store, layout, row, secrets or {})]


def _prepare(
    store: Store, layout: Layout, row: sqlite3.Row, secrets: Mapping[str, str]
) -> list[subprocess.Popen[bytes]]:
    spec = ClusterSpec.from_wire(json.loads(row["spec"]))
    volumes = spec.node_setup.mount_volumes if spec.node_setup else None
    (layout.node(row["guid"], row["id"]) / "tmp").mkdir(parents=True, exist_ok=True)
    mounts.link(layout, layout.mounts(row["guid"]), volumes)
    has_task = spec.node_setup is not None and spec.node_setup.setup_task is not None
    if not (has_task or mount_commands(volumes)):
        settle(store, row["id"], "")
    elif not row["preparer"]:
        return _start(store, layout, row, secrets)
    elif not process.is_alive(row["preparer"]):
        settle(store, row["id"], "The process that prepared the node disappeared")
    return []


def settle(store: Store, node: str, problem: str) -> None:
    """Writes down that a node is ready, or why it never will be."""
    state = "unusable" if problem else "idle"
    with store.write() as db:
        db.execute(
            "UPDATE node SET state = ?, error = ?, since = ? WHERE id = ? AND state = 'preparing'",
            (state, problem, time.time(), node),
        )


def _start(
    store: Store, layout: Layout, row: sqlite3.Row, secrets: Mapping[str, str]
) -> list[subprocess.Popen[bytes]]:
    spec = ClusterSpec.from_wire(json.loads(row["spec"]))
    missing = _missing(spec, secrets)
    if missing:
        text = f"The setup task's secrets ({', '.join(missing)}) are not kept: create the cluster again"
        settle(store, row["id"], text)
        return []
    folder = layout.node(row["guid"], row["id"])
    try:
        plan_of_setup(layout, row, spec)
    except FileNotFoundError:  # the node was sent away just now, and its folder with it
        return []
    program = detached.Program("preparer", (str(layout.home), row["id"]), sys.executable, folder / "log")
    with store.write() as db:
        claimed = db.execute(
            "UPDATE node SET preparer = ? WHERE id = ? AND preparer = ''", (process.own_identity(), row["id"])
        ).rowcount
    if not claimed:
        return []
    child = detached.start(program, secrets=secrets)
    with store.write() as db:
        db.execute("UPDATE node SET preparer = ? WHERE id = ?", (process.identity(child.pid), row["id"]))
    return [child]


def _missing(spec: ClusterSpec, secrets: Mapping[str, str]) -> list[str]:
    """The names of the setup task's secrets whose values nobody has any more."""
    task = spec.node_setup.setup_task if spec.node_setup else None
    return [item.name for item in (task.secrets if task else None) or () if item.name not in secrets]
