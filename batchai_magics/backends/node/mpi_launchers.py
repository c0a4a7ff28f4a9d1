"""MPI on this machine: how ranks communicate, commands with their own launcher, and ranks that ran alone.

Batch AI's recipes run `mpirun` with Open MPI's options. MPICH, used for everything else here, does not know
them, so such commands run with this machine's Open MPI.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.launch.plan import Plan, PlanNode

if TYPE_CHECKING:
    from batchai_magics.backends.node.ranks.pmi import ProcessManager  # it loads sockets

_IMPORTS_MPI = rb"(?m)^[ \t]*(?:from|import)[ \t][^\n#]*\b(?:mpi4py|horovod|chainermn|mpi4jax)\b"
_VARIABLE = r"\$(?:\{(\w+)\}|(\w+))"
_READ_LIMIT = 1 << 20


def has_no_mpi(manager: ProcessManager | None, plan: Plan, printed: Sequence[int]) -> bool:
    """Whether no rank joined the job's MPI although the script imports it or ranks printed the same output.

    Ranks of a program that needs no MPI, each with its own part of the work, print different output:
    `printed` are the checksums of the output of the ranks.
    """
    if manager is None or manager.size < 2 or manager.initialized:
        return False
    return len({*printed}) < len(printed) or any(map(_imports_mpi, _scripts(plan)))


def _scripts(plan: Plan) -> Iterator[Path]:
    """The Python files named in the command, which is the same for all MPI ranks."""
    process = plan.processes[0]
    node = plan.node_of(process)
    variables = {**node.env, **process.env}
    command = re.sub(_VARIABLE, lambda match: variables.get(match[1] or match[2], match[0]), process.command)
    try:
        words = shlex.split(command)
    except ValueError:  # an unclosed quote, which the shell rejects too
        return
    for word in words:
        if word.endswith(".py"):
            yield Path(node.folder, word)


def _imports_mpi(script: Path) -> bool:
    try:
        with script.open("rb") as file:
            return re.search(_IMPORTS_MPI, file.read(_READ_LIMIT)) is not None
    except OSError:  # it is inside a container, or deleted
        return False


_STARTS_MPI = r"(?:^|[\s;&|(])(?:\S*/)?mpi(?:run|exec)\s"
_LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
OWN_LAUNCHER = (
    "the command starts MPI's launcher itself, which listens on every interface of the machine while it runs;"
    " the toolkits mpi and horovod start the processes without it"
)


def transport(plan: Plan) -> Mapping[str, str]:
    """The variables that select how ranks communicate: shared memory, or TCP over loopback in containers.

    MPICH's default fails between nodes and listens on all interfaces. Nodes that share memory still count as
    nodes. TCP, if requested, also uses loopback. Intel MPI reads only libfabric's variables.
    """
    needs_tcp = bool(plan.containers.engine) or sys.platform != "linux"
    fabric = {"FI_PROVIDER": "tcp" if needs_tcp else "shm", "FI_TCP_IFACE": _LOOPBACK}
    return {"MPIR_CVAR_CH4_NETMOD": "ofi", "HYDRA_LAUNCHER": "fork", **fabric}


def starts_launcher(command: str) -> bool:
    """Whether a command line runs `mpirun` or `mpiexec` itself."""
    return bool(re.search(_STARTS_MPI, command))


# Options of Open MPI's mpirun that MPICH's does not have.
_OPTIONS = r"(?:^|\s)(?:-{1,2}mca|--allow-run-as-root|--oversubscribe|--?bind-to|--?map-by|-x|--tag-output)\s"
# As set on the recipes' machines, and required for root in a container.
ENV = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
}


def needs_open_mpi(command: str) -> bool:
    """Whether a command line runs `mpirun` with options that only Open MPI has."""
    return bool(starts_launcher(command) and re.search(_OPTIONS, command))


def find_open_mpi() -> str:
    """The path of this machine's Open MPI `mpirun`; empty without one."""
    names = ("mpirun.openmpi", "mpirun")
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    # absolute, as a folder of PATH may be empty: a name without a folder would be looked up anew
    for program in (Path(folder).absolute() / name for name in names for folder in folders):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):  # it is not there, or cannot be run
            done = subprocess.run([program, "--version"], capture_output=True, timeout=10, check=False)
            if b"Open MPI" in done.stdout or b"OpenRTE" in done.stdout:
                return str(program)
    return ""


def with_own_launcher(plan: Plan, *, programs: Path, hosts: Path) -> Plan:
    """The plan with a note if commands start their own launcher, and with Open MPI for those written for it.

    `programs` is a folder to put first on PATH, `hosts` the host file to replace.
    """
    if programs.exists():
        import shutil  # supervisors start without it

        shutil.rmtree(programs, ignore_errors=True)
    if not any(starts_launcher(process.command) for process in plan.processes):
        return plan
    noted = plan._replace(notes=(*plan.notes, OWN_LAUNCHER))
    if not any(needs_open_mpi(process.command) for process in plan.processes):
        return noted
    mpirun = find_open_mpi()
    if not mpirun:
        note = "the command has options of Open MPI, which is not installed here: MPICH's mpirun refuses them"
        return plan._replace(notes=(*plan.notes, note))
    programs.mkdir(parents=True, exist_ok=True, mode=0o700)
    for link in (programs / "mpirun", programs / "mpiexec"):
        link.unlink(missing_ok=True)
        link.symlink_to(mpirun)
    slots = max(len(plan.nodes), os.cpu_count() or 1)  # all nodes are this machine
    hosts.write_text(f"localhost slots={slots}\n", encoding="utf-8")
    return noted._replace(
        nodes=tuple(
            node._replace(env={**ENV, **node.env, "PATH": _path(node, programs, plan.python)})
            for node in plan.nodes
        )
    )


def _path(node: PlanNode, programs: Path, python: str) -> str:
    """The PATH of the job's processes: Open MPI, the job's Python, then the PATH of the node."""
    path = node.env.get("PATH") or os.environ.get("PATH", os.defpath)
    return os.pathsep.join([str(programs), str(Path(python).parent), path])
