"""What runs a cluster's setup task on one node."""

from __future__ import annotations

import sqlite3

from batchai_magics import launch
from batchai_magics.backends.local import mounts
from batchai_magics.backends.local.layout import Layout
from batchai_magics.backends.local.planning import DISK_GRACE_S, write_json
from batchai_magics.models.cluster import ClusterSpec


def plan_of_setup(layout: Layout, row: sqlite3.Row, spec: ClusterSpec) -> None:
    """Writes what runs a cluster's setup task on one node (`id`, `guid`, `cluster_id` of `row`)."""
    task = spec.node_setup.setup_task if spec.node_setup else None
    assert task, "only clusters with a setup task get here"
    folder = layout.node(row["guid"], row["id"])
    logs = mounts.setup_logs(layout, spec)
    logs.mkdir(parents=True, exist_ok=True)
    exits = folder / "exits"
    exits.mkdir(exist_ok=True)
    env = {"AZ_BATCHAI_MOUNT_ROOT": str(layout.mounts(row["guid"]))}
    env |= {item.name: launch.expand(item.value, env) for item in task.environment_variables or ()}
    node = {"id": row["id"], "env": env, "cwd": str(folder), "tmp": str(folder / "tmp")}
    streams = {name: str(logs / f"{name}-{row['id']}.txt") for name in ("stdout", "stderr")}
    body = {
        "guid": row["id"],
        "exits": str(exits),
        "is_shared": False,
        "disk_grace_s": DISK_GRACE_S,
        **streams,
        **{f"{name}_spans": "" for name in streams},
        "nodes": [node],
        "processes": [{"node": 0, "command": task.command_line, "env": {}}],
    }
    write_json(folder / "setup.json", body)
