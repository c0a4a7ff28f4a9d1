"""A job description and its nodes become processes: what each node starts, and its environment. Pure."""

from batchai_magics.launch.directories import expand
from batchai_magics.launch.plan import environment, plan
from batchai_magics.launch.toolkits import block_placement, port_count, process_count
from batchai_magics.launch.values import (
    Directory,
    JobPlace,
    Launcher,
    LaunchPlan,
    Need,
    NodeShare,
    Process,
    Role,
)

__all__ = [
    "Directory",
    "JobPlace",
    "LaunchPlan",
    "Launcher",
    "Need",
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
