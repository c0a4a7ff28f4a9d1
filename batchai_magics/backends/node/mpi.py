"""MPI on this machine: how ranks reach each other, and command lines that start a launcher themselves."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

from batchai_magics.launch.plan import Plan

_STARTS_MPI = re.compile(r"(?:^|[\s;&|(])(?:\S*/)?mpi(?:run|exec)\s")
_LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
OWN_LAUNCHER = (
    "the command starts MPI's launcher itself, which listens on every interface of the machine while it runs;"
    " the toolkits mpi and horovod start the processes without it"
)


def transport(plan: Plan) -> Mapping[str, str]:
    """The variables by which ranks use what they share: memory, or TCP over loopback in containers.

    MPICH's default fails between nodes and listens to the world. Nodes that share memory are nodes still. Who
    asks for TCP has it over loopback too. Intel MPI goes by the variables of libfabric alike.
    """
    is_apart = bool(plan.containers.engine) or sys.platform != "linux"
    fabric = {"FI_PROVIDER": "tcp" if is_apart else "shm", "FI_TCP_IFACE": _LOOPBACK}
    return {"MPIR_CVAR_CH4_NETMOD": "ofi", "HYDRA_LAUNCHER": "fork", **fabric}


def starts_launcher(command: str) -> bool:
    """Whether a command line starts `mpirun` or `mpiexec` itself."""
    return bool(_STARTS_MPI.search(command))


def noted(plan: Plan) -> Plan:
    """The plan with a note where a process starts a launcher of its own."""
    if not any(starts_launcher(process.command) for process in plan.processes):
        return plan
    return plan._replace(notes=(*plan.notes, OWN_LAUNCHER))
