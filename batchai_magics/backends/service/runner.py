"""The Runner protocol: what an engine does with runs and nodes.

A runner knows nothing of workspaces, shares, ARM ids or wire JSON. What an engine has to remember about a
cluster or run is its own JSON (`EngineState`), stored by the service in their records. The engine owns the
queue and the allocation of nodes, and resolves the references of a Plan once it has nodes.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from batchai_magics.backends.base import Capabilities
from batchai_magics.backends.service.host_runs import NO_CONTAINERS, HostRuns
from batchai_magics.models.states import DeallocationOption, ExecutionState, NodeState

if TYPE_CHECKING:
    from pathlib import Path

    from batchai_magics.backends.base import CommandOutput
    from batchai_magics.backends.folders.run_end import Predecessor
    from batchai_magics.launch.outcome import Outcome, RunAttempt
    from batchai_magics.launch.plan import Plan
    from batchai_magics.models.cluster_spec import ClusterSpec
    from batchai_magics.models.job_spec import JobSpec

EngineState = Mapping[str, Any]
MAX_NAMES = 3  # predecessors that a reason names
CORE_COUNT = "core_count"  # in a cluster's state: the cores of its nodes, if they are not the site's


@dataclass(frozen=True)
class Scale:
    """How many nodes a cluster may have; the bounds are equal for a fixed size."""

    minimum: int
    maximum: int
    initial: int = 0
    is_auto: bool = False


@dataclass(frozen=True)
class ClusterRequest:
    """The nodes requested for a new or resized cluster.

    `what` names its description in errors, `busy` has the guid of the run on each of its busy nodes, and
    `others` the states of all other clusters.
    """

    vm_size: str
    scale: Scale
    what: str
    busy: Mapping[str, str] = field(default_factory=dict)
    others: Sequence[EngineState] = ()


@dataclass(frozen=True)
class ClusterRef:
    """An existing cluster: `guid` names its folder, `state` is the engine's."""

    guid: str
    name: str
    vm_size: str
    scale: Scale
    state: EngineState


Request: TypeAlias = "JobSpec | ClusterRequest"


class JobGroup(NamedTuple):
    """The group of a run, such as its sweep: of its runs, `limit` may have nodes at once; 0: any number."""

    name: str = ""
    limit: int = 0


class Run(NamedTuple):
    """A run of a job: `guid` identifies it, `state` is the engine's."""

    guid: str
    name: str
    created: float
    state: EngineState
    group: JobGroup = JobGroup()


def waiting_reason(predecessors: Iterable[Predecessor]) -> str:
    """Why a run is queued that starts after others: their names, and whether they must succeed."""
    groups: dict[str, list[str]] = {}
    for predecessor in predecessors:
        groups.setdefault("succeed" if predecessor.must_succeed else "end", []).append(predecessor.name)
    reasons = []
    for verb, names in groups.items():
        shown = [*names[:MAX_NAMES], *[f"{len(names) - MAX_NAMES} more"] * (len(names) > MAX_NAMES)]
        listed = " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
        reasons.append(f"{listed} {'has' if len(names) == 1 else 'have'} to {verb} first")
    return "; ".join(reasons)


@dataclass(frozen=True)
class EngineSite:
    """What a Plan depends on that is the same for all nodes of the engine.

    `python` runs the programs of nodes, `script_wrapper` is the path of the program that runs a script of
    an MPI job, `environ` the environment that jobs inherit. Without a `core_count`, the engine resolves the
    threads of each process, with `has_devices` the GPUs of each node. With `has_scratch`, working directories
    are on the nodes' own disks, at a path that the engine resolves. `tmpdir` names the folder of
    temporary files in a node's folder; empty for the engine's. `container_engine` is the command that runs
    the containers of a job, if it has any.
    """

    python: str
    script_wrapper: str
    environ: Mapping[str, str]
    core_count: int | None
    disk_grace_s: float
    has_scratch: bool = False
    has_devices: bool = False
    tmpdir: str = ""
    container_engine: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedSetup:
    """What a node of a cluster mounts and runs before it takes runs; without a Plan, nothing.

    The Plan refers to one node; the secrets are those of its setup task.
    """

    plan: Plan | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterChange:
    """What an engine does about a cluster that was created or resized.

    `setup` is for the nodes of a new cluster. `option` says what becomes of those of the open `runs` that are
    on nodes that leave.
    """

    setup: PlannedSetup | None = None
    runs: Sequence[tuple[Run, RunStatus]] = ()
    option: DeallocationOption = DeallocationOption.REQUEUE


@dataclass(frozen=True)
class RunStatus:
    """The status of a run.

    `changed` is when it entered its state, `started` when its latest attempt started, `nodes` are those it
    holds now, `waiting` is why it is queued. `attempts` are all its attempts if there was more than one.
    `warnings` are those of a run that has not ended, as JSON of the service's error details.
    """

    state: ExecutionState
    changed: float
    started: float | None = None
    nodes: tuple[str, ...] = ()
    waiting: str = ""
    attempts: tuple[RunAttempt, ...] = ()
    result: Outcome | None = None
    warnings: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of_end(cls, end: Outcome, started: float | None, attempts: tuple[RunAttempt, ...] = ()) -> RunStatus:
        """The final status of a run with this outcome."""
        state = ExecutionState.SUCCEEDED if end.is_success else ExecutionState.FAILED
        return cls(state, end.ended, started, attempts=attempts, result=end)

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.result is None


class NodeStatus(NamedTuple):
    """The status of a node; `reason` is why it is unusable, `code` the corresponding error code."""

    name: str
    state: NodeState
    reason: str = ""
    code: str = "NodeUnusable"
    address: str = ""


class ClusterWarning(NamedTuple):
    """A warning for the users of a cluster."""

    code: str
    message: str


class NodeCommand(NamedTuple):
    """A shell command for a node. `runs` are the open ones of its cluster.

    Without output, an empty text is yielded after each `tick_s`.
    """

    node: str
    command: str
    runs: Sequence[tuple[Run, RunStatus]]
    tick_s: float = 0.0

    @property
    def busy(self) -> dict[str, str]:
        """The guid of the run on each busy node."""
        return {name: run.guid for run, status in self.runs for name in status.nodes}

    def with_mounts(self, folder: Path) -> str:
        """The command in a shell that knows the folder of the cluster's mounts."""
        return f"export AZ_BATCHAI_MOUNT_ROOT={shlex.quote(str(folder))}; {self.command}"


@dataclass(frozen=True)
class PlannedRun:
    """A new run, the cluster that it is for, and its Plan. Secrets are passed next to Plans, never in them.

    `setup` is the setup task of its cluster, with a process for each node. `after` are its predecessors.
    """

    run: Run
    cluster: ClusterRef
    plan: Plan
    setup: Plan | None = None
    registry_password: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict)
    after: tuple[Predecessor, ...] = ()


class EngineFacts(ABC):
    """What is known of an engine: it is asked for instead of the engine's name.

    An engine overrides what differs. Methods and properties may start programs, and are called when needed.
    """

    capabilities: Capabilities = Capabilities(name="")  # what its backend supports
    has_node_commands: bool = False  # whether it can `execute` commands on nodes
    # Whether it mounts and sets up the nodes of a cluster by itself, before runs get them
    prepares_nodes: bool = False
    # Whether it is not told which nodes are busy: a cluster may have thousands of runs
    knows_busy_nodes: bool = False
    host_runs: HostRuns = NO_CONTAINERS  # what becomes of jobs whose image it cannot use
    file_server_address: str = ""  # where nodes reach file servers, if these have addresses

    @property
    @abstractmethod
    def site(self) -> EngineSite:
        """What a Plan depends on, now."""

    def container_engine(self, *, has_credentials: bool) -> tuple[str, ...]:
        """The command that runs a job's containers on nodes; empty if jobs run without their image.

        Raises:
            CapabilityError: There is no container engine, or it cannot sign in to a private registry.
        """
        return ()

    def has_uv(self) -> bool:
        """Whether jobs find `uv`, with which environments are made."""
        return True

    def has_path(self, path: str) -> bool:
        """Whether nodes have this absolute path, as far as this machine knows."""
        return True

    def warnings(self, cluster: ClusterRef) -> Sequence[ClusterWarning]:
        """What the users of a cluster should know: shown with it, and in the logs of its jobs."""
        return ()

    def notes_of_cluster(self, spec: ClusterSpec) -> tuple[str, ...]:
        """What the user of a new cluster should know of its nodes."""
        return ()


class Runner(Protocol):
    """An engine that runs jobs on nodes. Nothing here blocks for the duration of a run.

    Only `submit`, `stop`, `apply`, `execute` and `reconcile` change anything. An engine derives its own from
    this class.
    """

    facts: EngineFacts  # what is known of the engine

    @abstractmethod
    def check(self, request: Request, cluster: ClusterRef | None) -> EngineState:
        """Checks that the engine can satisfy a request; returns the engine state of the run or cluster.

        Nothing is changed yet: the state is recorded first, then `submit` or `apply` is called.

        Args:
            request: A job, or the nodes of a new or resized cluster.
            cluster: The cluster of the run, or the one to resize; None for a new one.

        Raises:
            SpecError, CapabilityError: The engine cannot satisfy it, or a job must not set an option.
        """

    @abstractmethod
    def submit(self, runs: Sequence[PlannedRun]) -> None:
        """Queues runs, together where the engine can; of each group, only as many run at once as it may.

        It is called in the transaction that records the runs if both are in one database; the caller removes
        the folders of the runs on failure, and calls `reconcile` afterwards, which starts what can start.

        Raises:
            ServiceError: The engine refused them; has the engine's message.
        """

    @abstractmethod
    def status(self, runs: Sequence[Run]) -> Sequence[RunStatus]:
        """The status of each run, including runs that their engine ended without a report; only reads."""

    def version(self) -> str:
        """Text that differs once any record or status may have changed; empty where that is unknown."""
        return ""

    @abstractmethod
    def stop(self, runs: Sequence[Run], reason: str = "", *, grace_s: float | None = None) -> None:
        """Asks runs to stop; pending ones end at once. No effect on those that have ended.

        Args:
            runs: The runs.
            reason: Why their cluster is gone; empty for the request of a user.
            grace_s: 0 kills the processes of those that were asked before, if the engine can; None leaves
                them the time that their Plans say.
        """

    def fail_waiting(self, runs: Sequence[Run], predecessor: Run) -> None:
        """Ends the runs that still wait for a predecessor that is about to be deleted."""
        raise AssertionError("only engines with the capability `chains` have runs that start after others")

    @abstractmethod
    def apply(self, cluster: ClusterRef, change: ClusterChange | None) -> None:
        """Makes a cluster what its record says, after it was created or resized; None: it is deleted."""

    @abstractmethod
    def nodes(self, cluster: ClusterRef, busy: Mapping[str, str]) -> Sequence[NodeStatus]:
        """The nodes of a cluster; `busy` has the guid of the run on each busy node."""

    def execute(self, cluster: ClusterRef, command: NodeCommand) -> CommandOutput:
        """Runs a shell command on a node; see `NodeCommands.execute`.

        Raises:
            NotFoundError: The cluster does not have the node.
        """
        raise AssertionError("only engines whose facts say so run commands on nodes")

    def snapshot(self, runs: Sequence[Run], clusters: Sequence[str] = ()) -> AbstractContextManager[None]:
        """Within the context, this thread may read the status of these runs and clusters from a snapshot.

        Clusters are given by their guids.
        """
        return nullcontext()

    @abstractmethod
    def reconcile(self) -> None:
        """Starts what can start, and records and ends what a dead process left undone."""

    def close(self) -> None:
        """Releases connections and files; runs continue."""
        return
