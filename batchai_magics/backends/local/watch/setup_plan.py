"""What mounts for a node of a cluster, and runs its setup task."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

from batchai_magics.backends.local.folders import mounts
from batchai_magics.backends.local.folders.layout import Layout
from batchai_magics.backends.node import elevation
from batchai_magics.launch.directories import expand
from batchai_magics.launch.plan import LogFile, Node, Output, Plan, Process
from batchai_magics.launch.planning import mount_commands
from batchai_magics.models.cluster import ClusterSpec, SetupTask


def plan_of_setup(layout: Layout, row: sqlite3.Row, spec: ClusterSpec) -> None:
    """Writes what one node (`id`, `guid` of `row`) mounts and runs before it takes jobs."""
    setup = spec.node_setup
    assert setup, "only clusters with something to set up get here"
    folder = layout.node(row["guid"], row["id"])
    plan = Plan(
        guid=row["id"],
        nodes=(Node(row["id"], str(folder), str(folder / "tmp"), {}),),
        processes=(),
        output=Output(LogFile(""), LogFile("")),
        exits=str(folder / "exits"),
        python=sys.executable,
        mounts=mount_commands(setup.mount_volumes),
    )
    if setup.setup_task:
        plan = _with_task(plan, layout, row, spec, setup.setup_task)
    plan.write(str(layout.setup(row["guid"], row["id"])))


def _with_task(plan: Plan, layout: Layout, row: sqlite3.Row, spec: ClusterSpec, task: SetupTask) -> Plan:
    logs = mounts.setup_logs(layout, spec)
    logs.mkdir(parents=True, exist_ok=True)
    Path(plan.exits).mkdir(exist_ok=True)
    env = {"AZ_BATCHAI_MOUNT_ROOT": str(layout.mounts(row["guid"]))}
    env |= {item.name: expand(item.value, env) for item in task.environment_variables or ()}
    command, warning = (
        elevation.elevated_command(task.command_line) if task.run_elevated else (task.command_line, "")
    )
    return plan._replace(
        nodes=tuple(node._replace(env=env) for node in plan.nodes),
        processes=(Process(0, 0, command),),
        output=Output(*(LogFile(str(logs / f"{name}-{row['id']}.txt")) for name in ("stdout", "stderr"))),
        notes=(warning,) if warning else (),
    )
