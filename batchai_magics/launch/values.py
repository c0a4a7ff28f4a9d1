"""What a launch plan is made of."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class Launcher(enum.Enum):
    """How the processes of a job are started."""

    DIRECT = "direct"  # each by itself
    MPI = "mpi"  # together, by mpiexec


class Role(enum.Enum):
    """What a process is for; parameter servers are ended when all the others are done."""

    RANK = "rank"
    MASTER = "master"
    WORKER = "worker"
    PARAMETER_SERVER = "ps"


@dataclass(frozen=True)
class NodeShare:
    """A node as a job sees it: its name, its GPUs and cores, and its own paths."""

    id: str
    gpu_count: int
    mount_root: str
    job_mount_root: str
    temp: str
    devices: tuple[int, ...] = ()  # GPUs of this machine that belong to the node
    core_count: int = 1  # cores of this machine that belong to it


@dataclass(frozen=True)
class JobPlace:
    """What all nodes of a job share: folders, interpreter, and free TCP ports (one a process)."""

    stdouterr: str
    shared_temp: str
    host_file: str
    output_segment: str
    python: str
    python_wrapper: str = ""  # runs a script so that an error in one rank ends the job
    ports: tuple[int, ...] = ()


@dataclass(frozen=True)
class Process:
    """One process: a shell command on the node number `node`, with variables of its own."""

    index: int
    node: int
    command: str
    role: Role = Role.RANK
    env: Mapping[str, str] = field(default_factory=dict)


class Need(enum.Enum):
    """What a directory of a job needs before the job starts."""

    NOTHING = "nothing"
    MAKE = "make"  # it is made unless it is there
    FIND = "find"  # the job fails unless it is there


@dataclass(frozen=True)
class Directory:
    """A directory of a job on one node: the variable that tells its path, the path, what it needs."""

    variable: str
    path: str
    need: Need


@dataclass(frozen=True)
class LaunchPlan:
    """All that runs: `preparation` once on each node, then `processes` by `launcher`."""

    launcher: Launcher
    processes: tuple[Process, ...]
    node_env: tuple[Mapping[str, str], ...]
    directories: tuple[tuple[Directory, ...], ...]  # of each node
    preparation: str | None = None
