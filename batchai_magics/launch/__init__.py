"""A job description and its nodes become processes: what each node starts, and its environment. Pure."""

from batchai_magics.launch.plan import environment, expand, plan
from batchai_magics.launch.toolkits import block_placement, port_count, process_count
from batchai_magics.launch.values import JobPlace, Launcher, LaunchPlan, NodeShare, Process, Role

__all__ = [
    "JobPlace",
    "LaunchPlan",
    "Launcher",
    "NodeShare",
    "Process",
    "Role",
    "block_placement",
    "environment",
    "expand",
    "plan",
    "port_count",
    "process_count",
]
