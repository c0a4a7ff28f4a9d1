"""The Plan: everything that the programs on a job's nodes need to start it. Frozen, typed, versioned.

This file, `typed_json` and `references` are copied to nodes with the programs of `backends.node`, and every
rank loads them before it starts its process. So they import little of the standard library and use named
tuples: importing `dataclasses` alone would make the start of a rank 50 % slower.

A plan may be made before its nodes are known. Its texts then contain references (see `references`), which
`Plan.resolved` replaces.
"""

import enum
import json
import os
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from batchai_magics.launch import references
from batchai_magics.launch.references import Bindings
from batchai_magics.launch.typed_json import FormError, from_json_types, to_json_types

TRAINER_LOG = "trainer-metrics.jsonl"  # beside the logs: the numbers that trainers log to files
VERSION = 6  # of the file format: a program only reads its own version


class PlanError(ValueError):
    """A file is not a plan, or has another version."""


class Launcher(enum.Enum):
    """How the processes of a plan are started."""

    DIRECT = "direct"  # independently
    MPI = "mpi"  # as the ranks of one MPI job


class Rendezvous(enum.Enum):
    """How the ranks of an MPI job reach their process manager."""

    DESCRIPTOR = "descriptor"  # inherited file descriptor
    PORT = "port"  # loopback port, for containers that do not inherit descriptors


class Role(enum.Enum):
    """What a process is for; parameter servers are terminated when all others have ended."""

    RANK = "rank"
    MASTER = "master"
    WORKER = "worker"
    PARAMETER_SERVER = "ps"


class Requirement(enum.Enum):
    """What must be true of a directory before the job starts."""

    NOTHING = "nothing"
    CREATE = "make"  # created if missing
    EXIST = "find"  # must exist, else the job fails


class Directory(NamedTuple):
    """A directory of a job on one node: the variable with its path, the path, and its requirement."""

    variable: str
    path: str
    need: Requirement


class Node(NamedTuple):
    """A node: the working directory, `$TMPDIR` and environment of its processes."""

    id: str
    folder: str
    tmpdir: str
    env: Mapping[str, str]
    directories: tuple[Directory, ...] = ()


class LogFile(NamedTuple):
    """A log file with its companions: which rank wrote which bytes, when, and where secrets are.

    Without a path, the output is not kept.
    """

    path: str
    spans: str = ""  # only if several ranks share the file
    times: str = ""
    hidden: str = ""  # only if the job has secrets


class Output(NamedTuple):
    """Where processes write."""

    stdout: LogFile
    stderr: LogFile


class Process(NamedTuple):
    """One process: a shell command on node number `node`, with its own variables and possibly its own logs.

    `output` replaces the common output; `own` receives a copy.
    """

    rank: int
    node: int
    command: str
    role: Role = Role.RANK
    env: Mapping[str, str] = MappingProxyType({})
    output: Output | None = None
    own: Output | None = None


class Mount(NamedTuple):
    """A mount command, and its mount point relative to the mount root."""

    command: str
    path: str


class Image(NamedTuple):
    """A container image; without a username it is pulled anonymously."""

    name: str
    server: str = ""
    username: str = ""
    shm_size: str = ""


class Containers(NamedTuple):
    """The requested image, the command that runs it (empty: none), and those that remove containers."""

    image: Image | None = None
    engine: tuple[str, ...] = ()
    removals: tuple[tuple[str, ...], ...] = ()


class Limits(NamedTuple):
    """How long the processes may run, and how long they wait for free space on a full disk.

    `max_restarts` is how often a run continues after losing its nodes or reaching its time limit (None: the
    engine decides), `warn_s` how long before such an end its processes are warned (0: never).
    """

    wall: str = "P7D"  # as in the description
    wall_s: float = 604_800.0
    disk_grace_s: float = 60.0
    max_restarts: int | None = None
    warn_s: float = 0.0


class ProcessExit(NamedTuple):
    """The status file of a process that has ended; without an exit code, it disappeared."""

    rank: int
    node: str
    exit_code: int | None = None
    ended: float | None = None  # seconds since the epoch
    peak_bytes: int | None = None  # peak memory of its processes together


class Plan(NamedTuple):
    """What is started together: a node's setup task, a job's preparation, or its processes.

    `python` runs the programs on nodes. `exits` is the folder for status files of ended processes,
    `telemetry` for usage samples, `machines` for records of machines (empty: none). `secrets` are names of
    variables whose values exist only in the supervisor's memory.
    """

    guid: str
    nodes: tuple[Node, ...]
    processes: tuple[Process, ...]
    output: Output
    exits: str
    python: str
    launcher: Launcher = Launcher.DIRECT
    rendezvous: Rendezvous = Rendezvous.DESCRIPTOR
    limits: Limits = Limits()
    mounts: tuple[Mount, ...] = ()
    containers: Containers = Containers()
    secrets: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    execution_logs: tuple[str, ...] = ()
    telemetry: str = ""
    machines: str = ""

    @property
    def processes_per_node(self) -> int:
        """The number of processes on a full node: ranks fill a node before the next."""
        return -(-len(self.processes) // len(self.nodes))

    def node_of(self, process: Process) -> Node:
        """The node of a process."""
        return self.nodes[process.node]

    def output_of(self, process: Process) -> Output:
        """Where a process writes."""
        return process.output or self.output

    def are_workers_done(self, ended: Collection[int]) -> bool:
        """Whether only parameter servers are still running, if there are any.

        `ended` are the ranks that have ended.
        """
        workers = {each.rank for each in self.processes if each.role is not Role.PARAMETER_SERVER}
        return len(workers) < len(self.processes) and workers <= set(ended)

    def resolved(self, bindings: Bindings) -> "Plan":
        """The plan with all references replaced by their values."""
        plan: Plan = references.resolved(self, bindings)
        return plan

    def to_json(self) -> str:
        """The plan as file contents."""
        return json.dumps({"version": VERSION, **to_json_types(self)})

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """Parse file contents; PlanError if they are not a plan of this version."""
        try:
            body = json.loads(text)
        except ValueError as error:
            raise PlanError(f"The plan is no JSON: {error}") from None
        version = body.pop("version", None) if isinstance(body, dict) else None
        if version != VERSION:
            written = f"version {version}" if version else "no version"
            text = f"The plan has {written}, and this program reads version {VERSION}"
            raise PlanError(f"{text}: submit the job again with the batchai_magics that is installed now")
        try:
            plan: Plan = from_json_types(cls, body, "plan")
        except FormError as error:
            raise PlanError(str(error)) from None
        return plan

    def write(self, path: str) -> None:
        """Write the plan to a file atomically."""
        part = os.open(path + ".part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(part, "w", encoding="utf-8") as file:
            file.write(self.to_json())
        os.replace(path + ".part", path)  # noqa: PTH105 pathlib slows each rank

    @classmethod
    def read(cls, path: str) -> "Plan":
        """Read the plan in a file."""
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 pathlib slows each rank
            return cls.from_json(file.read())
