"""What mounts for a node of a cluster, and runs its setup task."""

from __future__ import annotations

import sys
from pathlib import Path

from batchai_magics.backends.local.folders import mounts
from batchai_magics.backends.local.folders.layout import Layout
from batchai_magics.backends.local.state.nodes import NewNode
from batchai_magics.backends.node import elevation
from batchai_magics.launch.directories import expand
from batchai_magics.launch.plan import LogFile, Node, Output, Plan, Process
from batchai_magics.launch.planning import mount_commands
from batchai_magics.models.cluster import ClusterSpec, SetupTask


def plan_of_setup(layout: Layout, node: NewNode, spec: ClusterSpec) -> None:
    """Writes what one node mounts and runs before it takes jobs."""
    setup = spec.node_setup
    assert setup, "only clusters with something to set up get here"
    folder = layout.node(node.guid, node.id)
    plan = Plan(
        guid=node.id,
        nodes=(Node(node.id, str(folder), str(folder / "tmp"), {}),),
        processes=(),
        output=Output(LogFile(""), LogFile("")),
        exits=str(folder / "exits"),
        python=sys.executable,
        mounts=mount_commands(setup.mount_volumes),
    )
    if setup.setup_task:
        plan = _with_task(plan, layout, node, spec, setup.setup_task)
    plan.write(str(layout.setup(node.guid, node.id)))


def _with_task(plan: Plan, layout: Layout, node: NewNode, spec: ClusterSpec, task: SetupTask) -> Plan:
    logs = mounts.setup_logs(layout, spec)
    logs.mkdir(parents=True, exist_ok=True)
    Path(plan.exits).mkdir(exist_ok=True)
    env = {"AZ_BATCHAI_MOUNT_ROOT": str(layout.mounts(node.guid))}
    env |= {item.name: expand(item.value, env) for item in task.environment_variables or ()}
    command, warning = (
        elevation.elevated_command(task.command_line) if task.run_elevated else (task.command_line, "")
    )
    return plan._replace(
        nodes=tuple(item._replace(env=env) for item in plan.nodes),
        processes=(Process(0, 0, command),),
        output=Output(*(LogFile(str(logs / f"{name}-{node.id}.txt")) for name in ("stdout", "stderr"))),
        notes=(warning,) if warning else (),
    )
