"""The Runner protocol: what an engine does with runs and nodes.

A runner knows nothing of workspaces, shares, ARM ids or wire JSON. What an engine has to remember of a
cluster or a run is JSON of its own (`EngineState`), which the service keeps in the record for it. The engine
owns the queue and the allocation of nodes, and resolves the references of a Plan once it has nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from batchai_magics.backends.base import CommandOutput
    from batchai_magics.backends.service.repository import Footprint
    from batchai_magics.launch.plan import Plan, ProcessExit
    from batchai_magics.models.states import DeallocationOption, ExecutionState, NodeState

EngineState = Mapping[str, Any]


@dataclass(frozen=True)
class Scale:
    """How many nodes a cluster is to have; one of a fixed size has equal bounds."""

    minimum: int
    maximum: int
    initial: int = 0
    is_auto: bool = False


@dataclass(frozen=True)
class ClusterRequest:
    """What a new or resized cluster asks of the engine. `what` names its description in errors."""

    vm_size: str
    scale: Scale
    what: str


@dataclass(frozen=True)
class ClusterRef:
    """A cluster that exists: `guid` names its folder, `state` is what the engine keeps with it."""

    guid: str
    name: str
    vm_size: str
    scale: Scale
    state: EngineState


@dataclass(frozen=True)
class RunRequest:
    """What a job asks of the engine.

    `backend_options` are the texts of the engine's native options by name, see `models.backend_options`.
    `what` names the job's description in errors. `priority` is 0 for high, 1 for normal and 2 for low.
    """

    node_count: int
    priority: int
    wall_s: float
    backend_options: Mapping[str, str]
    what: str


@dataclass(frozen=True)
class Run:
    """One run of a job: `guid` identifies it, `state` is what the engine keeps with it."""

    guid: str
    name: str
    created: float
    state: EngineState


@dataclass(frozen=True)
class Site:
    """What a Plan needs to know of the engine's nodes, whichever a run gets.

    `python` runs the programs of nodes, `script_wrapper` is the path of the program that runs a script of
    an MPI job, `environ` the environment that jobs inherit. Without a `core_count` the engine resolves the
    threads of each process, with `has_devices` the GPUs of each node. With `has_scratch` working directories
    are on the nodes' own disks, at a place that the engine resolves. `tmpdir` is the name of the folder of
    temporary files in a node's own folder, empty where it is the engine's.
    """

    python: str
    script_wrapper: str
    environ: Mapping[str, str]
    core_count: int | None
    disk_grace_s: float
    has_scratch: bool = False
    has_devices: bool = False
    tmpdir: str = ""


@dataclass(frozen=True)
class Launch:
    """What a run starts. Secrets travel beside the Plans, never inside them.

    `setup` is the setup task of its cluster, a process for each node. `port_count` is the number of free
    ports that the Plans refer to.
    """

    plan: Plan
    preparation: Plan | None = None
    setup: Plan | None = None
    is_setup_elevated: bool = False
    port_count: int = 0
    secrets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Attempt:
    """One start of a run on nodes. `ended` is None while it runs; times are in seconds since 1970."""

    nodes: tuple[str, ...]
    started: float
    ended: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class RunResult:
    """How a run ended, and when. `errors` and `warnings` are JSON of the service's error details.

    `ranks` has every process, the first that failed first.
    """

    ended: float
    exit_code: int | None
    errors: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[Mapping[str, Any], ...] = ()
    ranks: tuple[ProcessExit, ...] = ()


@dataclass(frozen=True)
class RunStatus:
    """The status of a run.

    `changed` is when it came to its state, `started` when its latest attempt began, `nodes` are those it
    holds now, `waiting` is why it waits. `attempts` are all that it has had, unless it was only one.
    """

    state: ExecutionState
    changed: float
    started: float | None = None
    nodes: tuple[str, ...] = ()
    waiting: str = ""
    attempts: tuple[Attempt, ...] = ()
    result: RunResult | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.result is None


class NodeStatus(NamedTuple):
    """The status of a node; `reason` says why it cannot be used, `code` is the error code for that."""

    name: str
    state: NodeState
    reason: str = ""
    code: str = "NodeUnusable"
    address: str = ""


class ClusterWarning(NamedTuple):
    """What the user of a cluster is told of it."""

    code: str
    message: str


class Runner(Protocol):
    """An engine that runs jobs on nodes. Nothing here blocks for the duration of a run."""

    def allocate(
        self,
        request: ClusterRequest,
        *,
        before: ClusterRef | None,
        busy: Mapping[str, str],
        others: Sequence[EngineState],
    ) -> EngineState:
        """Checks that the engine can give a cluster what it asks for, and chooses what it gets.

        Nothing is changed yet: the state is written down first, then `resized` is called.

        Args:
            request: what the cluster is to have.
            before: the cluster as it is, None for a new one.
            busy: the guid of the run on each of its nodes that runs one, by node name.
            others: the states of all other clusters.

        Raises:
            SpecError, CapabilityError: for what the engine does not have.
        """

    def resized(
        self, cluster: ClusterRef, runs: Sequence[tuple[Run, RunStatus]], option: DeallocationOption
    ) -> None:
        """Makes the open runs of a cluster follow its new size, as the option says."""

    def set_up(self, cluster_guid: str, secrets: Mapping[str, str]) -> None:
        """Keeps the secrets of a new cluster's setup task for as long as the cluster exists."""

    def nodes(self, cluster: ClusterRef, busy: Mapping[str, str]) -> Sequence[NodeStatus]:
        """The nodes of a cluster; `busy` is as for `allocate`."""

    def warnings(self, cluster: ClusterRef) -> Sequence[ClusterWarning]:
        """What the users of a cluster have to know: shown with it, and in the logs of its jobs."""

    def remove_cluster(self, cluster_guid: str) -> None:
        """Forgets what is kept of a cluster that is deleted."""

    def admit(self, request: RunRequest, cluster: ClusterRef) -> EngineState:
        """Checks that the engine can run a job, and gives what it keeps with the run.

        Raises:
            SpecError: for options that the job may not give, or that the cluster cannot satisfy.
        """

    def container_engine(self, *, has_credentials: bool) -> tuple[str, ...]:
        """The command that runs the containers of a job on nodes; empty where jobs run without their image.

        Raises:
            CapabilityError: where nothing runs containers, or nothing can sign in to a private registry.
        """

    def site(self, cluster: ClusterRef) -> Site:
        """What the Plan of a run on a cluster needs to know."""

    def prepare(self, run: Run, launch: Launch) -> None:
        """Writes what the engine needs to start a run; the caller removes the run's folder on failure."""

    def submit(self, run: Run, cluster: ClusterRef) -> None:
        """Queues a prepared run.

        Raises:
            ServiceError: with the engine's words, when it refuses.
        """

    def poll(self, runs: Sequence[Run]) -> Sequence[RunStatus]:
        """The status of each run, also where its engine ended it without a report."""

    def footprint(self, runs: Sequence[Run], clusters: Sequence[str] = ()) -> Footprint:
        """What has to be read of a home to report these runs and clusters (by guid)."""

    def stop(self, run: Run, reason: str = "") -> None:
        """Asks a run to end; one that waits ends at once. Nothing happens to one that has ended.

        `reason` is told in its error; empty where a user terminated it.
        """

    def cluster_deleted(self, run: Run, text: str) -> None:
        """Ends an open run whose cluster is deleted: with `text` as the reason if it runs, else at once."""

    def close(self) -> None:
        """Releases connections and files; runs go on."""


class NodeShell(Protocol):
    """An engine that also runs commands on nodes: the facet `node_commands`."""

    def has_node(self, cluster: ClusterRef, name: str, busy: Mapping[str, str]) -> bool:
        """Whether a node belongs to a cluster."""

    def execute(
        self,
        cluster: ClusterRef,
        node: str,
        command: str,
        *,
        runs: Sequence[tuple[Run, RunStatus]],
        tick_s: float,
    ) -> CommandOutput:
        """Runs a shell command on a node; see `NodeCommands.execute`. `runs` are the cluster's open ones."""
