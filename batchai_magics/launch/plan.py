"""The Plan: what a job's nodes start, all that their programs are told. Frozen, typed, with a version.

Only the standard library is imported, and little of it: this file, `typed_json` and `references` travel with
the programs of `backends.node` to wherever nodes are, and every rank reads them before it starts its process.
So the values are named tuples: `dataclasses` alone would make a rank's start half as long again.

A plan may be made before its nodes are known. Then its texts have references to them (see `references`), and
`Plan.resolved` gives the plan that can be carried out.
"""

import enum
import json
import os
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from batchai_magics.launch import references
from batchai_magics.launch.references import Bindings
from batchai_magics.launch.typed_json import FormError, plain, typed

VERSION = 5  # of the file's form: a program reads its own version only


class PlanError(ValueError):
    """A file holds no plan, or one of another version."""


class Launcher(enum.Enum):
    """How the processes of a plan are started."""

    DIRECT = "direct"  # each by itself
    MPI = "mpi"  # together, as the ranks of one MPI job


class Meeting(enum.Enum):
    """How the ranks of an MPI job reach their process manager."""

    DESCRIPTOR = "descriptor"  # one that each inherits
    PORT = "port"  # of this machine alone, from containers that inherit nothing


class Role(enum.Enum):
    """What a process is for; parameter servers are ended when all the others are done."""

    RANK = "rank"
    MASTER = "master"
    WORKER = "worker"
    PARAMETER_SERVER = "ps"


class Need(enum.Enum):
    """What a directory of a job needs before the job starts."""

    NOTHING = "nothing"
    MAKE = "make"  # it is made unless it is there
    FIND = "find"  # the job fails unless it is there


class Directory(NamedTuple):
    """A directory of a job on one node: the variable that tells its path, the path, what it needs."""

    variable: str
    path: str
    need: Need


class Node(NamedTuple):
    """A node: the folder that its processes start in, their `$TMPDIR`, and what each of them is told."""

    id: str
    folder: str
    tmpdir: str
    env: Mapping[str, str]
    directories: tuple[Directory, ...] = ()


class LogFile(NamedTuple):
    """A file that output goes to, which rank wrote what of it, and when, and where secrets stand in it.

    Without a path none is kept.
    """

    path: str
    spans: str = ""  # only of a file that several ranks share
    times: str = ""
    hidden: str = ""  # only of a job that has secrets


class Output(NamedTuple):
    """Where processes write."""

    stdout: LogFile
    stderr: LogFile


class Process(NamedTuple):
    """One process: a shell command on the node number `node`, with variables of its own, and maybe logs.

    `output` is where it writes in place of where all do, `own` where all of it is written besides.
    """

    rank: int
    node: int
    command: str
    role: Role = Role.RANK
    env: Mapping[str, str] = MappingProxyType({})
    output: Output | None = None
    own: Output | None = None


class Mount(NamedTuple):
    """A mount command, and where below the mount root it mounts."""

    command: str
    path: str


class Image(NamedTuple):
    """A container's image as the description names it; without a username, anybody may pull it."""

    name: str
    server: str = ""
    username: str = ""
    shm_size: str = ""


class Containers(NamedTuple):
    """The image that the job asks for, the command that runs it (empty: none does), what removes all."""

    image: Image | None = None
    engine: tuple[str, ...] = ()
    removals: tuple[tuple[str, ...], ...] = ()


class Limits(NamedTuple):
    """How long the processes may run, and for how long they wait for room on a full disk."""

    wall: str = "P7D"  # as the description has it
    wall_s: float = 604_800.0
    disk_grace_s: float = 60.0


class ProcessExit(NamedTuple):
    """What a process that has ended leaves in a small file; without a code, it disappeared."""

    rank: int
    node: str
    exit_code: int | None = None
    ended: float | None = None  # in seconds since 1970
    peak_bytes: int | None = None  # the most memory that one of its processes had at once


class Plan(NamedTuple):
    """What is started together: a node's setup task, a job's preparation, or a job's processes.

    `python` runs the programs of nodes, `exits` is the folder for one small file of each process that ended,
    `telemetry` that for samples of what they use (empty: none are taken), `secrets` are the names of the
    variables whose values only the supervisor's memory holds.
    """

    guid: str
    nodes: tuple[Node, ...]
    processes: tuple[Process, ...]
    output: Output
    exits: str
    python: str
    launcher: Launcher = Launcher.DIRECT
    meeting: Meeting = Meeting.DESCRIPTOR
    limits: Limits = Limits()
    mounts: tuple[Mount, ...] = ()
    containers: Containers = Containers()
    secrets: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    execution_logs: tuple[str, ...] = ()
    telemetry: str = ""

    @property
    def processes_per_node(self) -> int:
        """How many processes a full node has: ranks fill a node before the next."""
        return -(-len(self.processes) // len(self.nodes))

    def node_of(self, process: Process) -> Node:
        """The node that a process is on."""
        return self.nodes[process.node]

    def output_of(self, process: Process) -> Output:
        """Where a process writes."""
        return process.output or self.output

    def are_workers_done(self, ended: Collection[int]) -> bool:
        """Whether, of processes among which there are parameter servers, nothing else runs any more.

        `ended` are the ranks that have ended.
        """
        workers = {each.rank for each in self.processes if each.role is not Role.PARAMETER_SERVER}
        return len(workers) < len(self.processes) and workers <= set(ended)

    def resolved(self, bindings: Bindings) -> "Plan":
        """The plan with the values of all references in its texts."""
        plan: Plan = references.resolved(self, bindings)
        return plan

    def to_json(self) -> str:
        """The plan as it is written to a file."""
        return json.dumps({"version": VERSION, **plain(self)})

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """The plan that was written so; a PlanError when it is none, or of another version."""
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
            plan: Plan = typed(cls, body, "plan")
        except FormError as error:
            raise PlanError(str(error)) from None
        return plan

    def write(self, path: str) -> None:
        """Writes a file that appears whole or not at all."""
        part = os.open(path + ".part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(part, "w", encoding="utf-8") as file:
            file.write(self.to_json())
        os.replace(path + ".part", path)  # noqa: PTH105 pathlib slows each rank

    @classmethod
    def read(cls, path: str) -> "Plan":
        """The plan in a file."""
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 pathlib slows each rank
            return cls.from_json(file.read())
