"""The Plan: everything that the programs on a job's nodes need to start it. Frozen, typed, versioned."""

import enum
import json
import os
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from batchai_magics.launch import references
from batchai_magics.launch.references import Bindings, Reference, Template


class FormError(ValueError):
    """A value has the wrong type."""


def to_json_types(value: Any) -> Any:
    """The JSON types of a value: objects for named tuples, lists for templates, values for enums."""
    if isinstance(value, Template):
        return [to_json_types(part) for part in value.parts]
    if hasattr(value, "_fields"):
        return {name: to_json_types(getattr(value, name)) for name in value._fields}
    if isinstance(value, tuple):
        return [to_json_types(item) for item in value]
    if isinstance(value, Mapping):
        return {name: to_json_types(item) for name, item in value.items()}
    return value.value if isinstance(value, enum.Enum) else value


def from_json_types(kind: Any, value: Any, where: str) -> Any:
    """Convert JSON types to a value of this type; FormError names the field with a wrong type."""
    if hasattr(kind, "_fields"):
        return _record(kind, value, where)
    if hasattr(kind, "__args__"):
        return _generic(kind, value, where)
    if issubclass(kind, enum.Enum):
        if value not in [member.value for member in kind]:
            raise FormError(f"{where}: {value!r} is not a valid {kind.__qualname__}")
        return kind(value)
    if kind is str and isinstance(value, list):
        return Template(
            part if isinstance(part, str) else from_json_types(Reference, part, where) for part in value
        )
    return float(_checked((int, float), value, where)) if kind is float else _checked(kind, value, where)


def _generic(kind: Any, value: Any, where: str) -> Any:
    """Convert a `tuple[kind, …]`, `kind | None`, or a mapping of texts."""
    inner = kind.__args__[0]
    if type(None) in kind.__args__:
        return None if value is None else from_json_types(inner, value, where)
    if kind.__origin__ is tuple:
        return tuple(from_json_types(inner, item, where) for item in _checked(list, value, where))
    return {name: from_json_types(str, text, where) for name, text in _checked(dict, value, where).items()}


def _record(kind: Any, value: Any, where: str) -> Any:
    body = _checked(dict, value, where)
    if body.keys() != set(kind._fields):
        odd = ", ".join(sorted(body.keys() ^ set(kind._fields)))
        raise FormError(f"{where} has not the fields of a {kind.__name__}: {odd}")
    types = kind.__annotations__
    return kind(*[from_json_types(types[name], body[name], f"{where}.{name}") for name in kind._fields])


def _checked(kind: Any, value: Any, where: str) -> Any:
    if (isinstance(value, bool) and kind is not bool) or not isinstance(value, kind):
        raise FormError(f"{where} is {type(value).__name__}, which it must not be")
    return value


TRAINER_LOG = "trainer-metrics.jsonl"  # beside the logs: the numbers that trainers log to files
UNREADABLE = "batchai_unreadable"  # the key there of why a file cannot be read any more
VERSION = 14  # of the Plan and of the store's tables: a program reads only its own version
OTHER_VERSION_HINT = "Set BATCHAI_HOME to another folder, or use the batchai_magics that made this one."


class PlanError(ValueError):
    """A file is not a plan, or has another version."""


class LaunchMode(enum.Enum):
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


class PlanNode(NamedTuple):
    """A node: the working directory, folder for temporary files and environment of its processes.

    Where sockets do not fit in that folder, its processes get a shorter one.
    """

    id: str
    folder: str
    tmpdir: str = ""
    env: Mapping[str, str] = MappingProxyType({})
    directories: tuple[Directory, ...] = ()


class LogPaths(NamedTuple):
    """A log file with its companions: which rank wrote which bytes, when, and where secrets are.

    Without a path, the output is not kept.
    """

    path: str
    spans: str = ""  # only if several ranks share the file
    times: str = ""
    hidden: str = ""  # where it has secrets is recorded there


class Output(NamedTuple):
    """Where processes write."""

    stdout: LogPaths
    stderr: LogPaths


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


GRACE_S = 30.0  # between SIGTERM and SIGKILL: the time to save


class Limits(NamedTuple):
    """How long the processes may run, and how long they wait for free space on a full disk.

    `max_restarts` is how often a run continues after losing its nodes or reaching its time limit (None: the
    engine decides), `warn_s` how long before such an end its processes are warned (0: never), `grace_s` how
    long they may take to save and exit once they are told to.
    """

    wall: str = "P7D"  # as in the description
    wall_s: float = 604_800.0
    disk_grace_s: float = 60.0
    max_restarts: int | None = None
    warn_s: float = 0.0
    grace_s: float = GRACE_S


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
    variables whose values exist only in the supervisor's memory. `texts` are those that references share,
    also those of the `preparation`, which runs before the processes; `port_count` is how many free ports they
    refer to. With `is_elevated`, processes run as root.
    """

    guid: str
    nodes: tuple[PlanNode, ...]
    processes: tuple[Process, ...]
    output: Output
    exits: str
    python: str
    launcher: LaunchMode = LaunchMode.DIRECT
    rendezvous: Rendezvous = Rendezvous.DESCRIPTOR
    limits: Limits = Limits()
    mounts: tuple[Mount, ...] = ()
    containers: Containers = Containers()
    secrets: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    execution_logs: tuple[str, ...] = ()
    telemetry: str = ""
    machines: str = ""
    texts: tuple[str, ...] = ()
    port_count: int = 0
    is_elevated: bool = False
    preparation: "Plan | None" = None

    @property
    def processes_per_node(self) -> int:
        """The number of processes on a full node: ranks fill a node before the next."""
        return -(-len(self.processes) // len(self.nodes))

    def node_of(self, process: Process) -> PlanNode:
        """The node of a process."""
        return self.nodes[process.node]

    def output_of(self, process: Process) -> Output:
        """Where a process writes."""
        return process.output or self.output

    def are_workers_done(self, ended: Collection[int]) -> bool:
        """Whether only parameter servers are still running, if there are any.

        `ended` are the ranks that have ended.
        """
        workers = {process.rank for process in self.processes if process.role is not Role.PARAMETER_SERVER}
        return len(workers) < len(self.processes) and workers <= set(ended)

    def changed(self, change: "Callable[[Plan], Plan]") -> "Plan":
        """The plan with a change that is made to it and to its preparation."""
        preparation = change(self.preparation) if self.preparation else None
        return change(self)._replace(preparation=preparation)

    def resolved(self, bindings: Bindings) -> "Plan":
        """The plan with all references replaced by their values."""
        texts = references.resolved(self.texts, bindings)
        plan: Plan = references.resolved(self._replace(texts=()), bindings._replace(texts=texts))
        return plan

    def to_json(self) -> str:
        """The plan as file contents."""
        return json.dumps({"version": VERSION, **to_json_types(self)})

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """Parse file contents; PlanError if they are not a plan of this version."""
        try:
            body = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise PlanError(f"The plan is no JSON: {error}") from None
        version = body.pop("version", None) if isinstance(body, dict) else None
        if version != VERSION:
            written = f"version {version}" if version else "no version"
            text = f"The plan has {written}, and this batchai_magics reads version {VERSION}."
            raise PlanError(f"{text} {OTHER_VERSION_HINT}")
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


def thread_share(core_count: int, processes_per_node: int) -> int:
    """The threads of a process that shares the cores of its node with the others there."""
    return max(1, core_count // max(1, processes_per_node))


Plan.__annotations__["preparation"] = Plan | None  # a class cannot name itself while it is defined
