"""What mounts for a node of a cluster, and runs its setup task."""

from __future__ import annotations

import sqlite3
from typing import Any

from batchai_magics import launch
from batchai_magics.backends.local import elevation
from batchai_magics.backends.local.folders import mounts
from batchai_magics.backends.local.folders.layout import Layout
from batchai_magics.backends.local.watch.planning import DISK_GRACE_S, write_json
from batchai_magics.models.cluster import ClusterSpec, SetupTask


def plan_of_setup(layout: Layout, row: sqlite3.Row, spec: ClusterSpec) -> None:
    """Writes what one node (`id`, `guid` of `row`) mounts and runs before it takes jobs."""
    setup = spec.node_setup
    assert setup, "only clusters with something to set up get here"
    body: dict[str, Any] = {
        "guid": row["id"],
        "mounts": mounts.commands(setup.mount_volumes),
        "processes": [],
    }
    if setup.setup_task:
        body |= _task(layout, row, spec, setup.setup_task)
    write_json(layout.node(row["guid"], row["id"]) / "setup.json", body)


def _task(layout: Layout, row: sqlite3.Row, spec: ClusterSpec, task: SetupTask) -> dict[str, Any]:
    """The part of the plan that `rank.py` reads."""
    folder, logs = layout.node(row["guid"], row["id"]), mounts.setup_logs(layout, spec)
    logs.mkdir(parents=True, exist_ok=True)
    exits = folder / "exits"
    exits.mkdir(exist_ok=True)
    env = {"AZ_BATCHAI_MOUNT_ROOT": str(layout.mounts(row["guid"]))}
    env |= {item.name: launch.expand(item.value, env) for item in task.environment_variables or ()}
    node = {"id": row["id"], "env": env, "cwd": str(folder), "tmp": str(folder / "tmp")}
    streams = {name: str(logs / f"{name}-{row['id']}.txt") for name in ("stdout", "stderr")}
    command, warning = (
        elevation.elevated_command(task.command_line) if task.run_elevated else (task.command_line, "")
    )
    return {
        "warning": warning,
        "exits": str(exits),
        "is_shared": False,
        "disk_grace_s": DISK_GRACE_S,
        **streams,
        **{f"{name}_spans": "" for name in streams},
        "nodes": [node],
        "processes": [{"node": 0, "command": command, "env": {}}],
    }
