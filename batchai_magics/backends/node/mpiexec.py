"""MPICH's launcher: where it is, and the command line and variables that start a plan's ranks with it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from batchai_magics.backends.node.programs import RANK
from batchai_magics.launch.plan import Plan

ENV = {
    # MPICH's default transport fails between nodes and listens to the world; TCP over loopback does neither.
    "MPIR_CVAR_CH4_NETMOD": "ofi",
    "FI_PROVIDER": "tcp",
    "FI_TCP_IFACE": "lo0" if sys.platform == "darwin" else "lo",
    "HYDRA_LAUNCHER": "fork",
}


def find(python: str) -> str:
    """The launcher beside the interpreter, else the one on PATH, or an empty string."""
    beside = Path(python).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec") or ""


def command(plan: Plan, plan_file: str) -> list[str]:
    """The command that starts all ranks of a plan."""
    where = ["-hosts", ",".join(node.id for node in plan.nodes), "-ppn", str(plan.processes_per_node)]
    # Containers do not inherit the descriptor that ranks speak to mpiexec over: they get a port.
    port = ["-pmi-port"] if plan.containers.engine else []
    how = [*port, "-launcher", "fork", "-iface", ENV["FI_TCP_IFACE"], "-localhost", "127.0.0.1"]
    rank = [plan.python, "-I", "-S", RANK, plan_file]
    return [plan.mpiexec, *how, *where, "-n", str(len(plan.processes)), *rank]
