"""From a cluster's node set-up to the Plan of what one node mounts and runs before it takes jobs. Pure."""

from __future__ import annotations

from batchai_magics.launch.directories import expand
from batchai_magics.launch.nodes import NodeShare
from batchai_magics.launch.plan import LogFile, Node, Output, Plan, Process
from batchai_magics.launch.planning import mount_commands
from batchai_magics.models.cluster import NodeSetup, SetupTask


def setup(asked: NodeSetup, node: NodeShare, *, python: str, exits: str, logs: str = "") -> Plan:
    """What one node mounts, and runs if there is a setup task, whose output goes to the folder `logs`."""
    plan = Plan(
        guid=node.id,
        nodes=(Node(node.id, node.temp, node.tmpdir, {}),),
        processes=(),
        output=Output(LogFile(""), LogFile("")),
        exits=exits,
        python=python,
        mounts=mount_commands(asked.mount_volumes),
    )
    return _with_task(plan, asked.setup_task, node, logs) if asked.setup_task else plan


def _with_task(plan: Plan, task: SetupTask, node: NodeShare, logs: str) -> Plan:
    env = {"AZ_BATCHAI_MOUNT_ROOT": node.mount_root}
    env |= {item.name: expand(item.value, env) for item in task.environment_variables or ()}
    return plan._replace(
        nodes=tuple(item._replace(env=env) for item in plan.nodes),
        processes=(Process(0, 0, task.command_line),),
        output=Output(*(LogFile(f"{logs}/{name}-{node.id}.txt") for name in ("stdout", "stderr"))),
    )
