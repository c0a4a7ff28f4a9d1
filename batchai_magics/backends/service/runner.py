"""The Runner protocol: what an engine does with runs and nodes.

A runner knows nothing of workspaces, shares, ARM ids or wire JSON. What an engine has to remember about a
cluster or run is its own JSON (`EngineState`), stored by the service in their records. The engine owns the
queue and the allocation of nodes, and resolves the references of a Plan once it has nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from batchai_magics.launch.plan import GRACE_S

if TYPE_CHECKING:
    from batchai_magics.backends.base import CommandOutput
    from batchai_magics.backends.service.repository import Footprint
    from batchai_magics.launch.outcome import Outcome
    from batchai_magics.launch.plan import Plan
from batchai_magics.models.states import DeallocationOption, ExecutionState, NodeState

EngineState = Mapping[str, Any]


@dataclass(frozen=True)
class Scale:
    """How many nodes a cluster may have; the bounds are equal for a fixed size."""

    minimum: int
    maximum: int
    initial: int = 0
    is_auto: bool = False


@dataclass(frozen=True)
class ClusterRequest:
    """The nodes requested for a new or resized cluster. `what` names its description in errors."""

    vm_size: str
    scale: Scale
    what: str


@dataclass(frozen=True)
class ClusterRef:
    """An existing cluster: `guid` names its folder, `state` is the engine's."""

    guid: str
    name: str
    vm_size: str
    scale: Scale
    state: EngineState


@dataclass(frozen=True)
class RunRequest:
    """What a job requests from the engine.

    `backend_options` are the engine's native options, as text by name, see `models.backend_options`.
    `what` names the job's description in errors. `priority` is 0 for high, 1 for normal and 2 for low.
    `gpu_count` is how many GPUs of each node are requested, 0 for all of them with the node to itself.
    `max_restarts`, `notice_s` and `grace_s` are those of `launch.plan.Limits`.
    """

    node_count: int
    priority: int
    wall_s: float
    backend_options: Mapping[str, str]
    what: str
    max_restarts: int | None = None
    notice_s: float = 0.0
    grace_s: float = GRACE_S
    gpu_count: int = 0


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


@dataclass(frozen=True)
class Site:
    """What a Plan depends on that is the same for all nodes of the engine.

    `python` runs the programs of nodes, `script_wrapper` is the path of the program that runs a script of
    an MPI job, `environ` the environment that jobs inherit. Without a `core_count`, the engine resolves the
    threads of each process, with `has_devices` the GPUs of each node. With `has_scratch`, working directories
    are on the nodes' own disks, at a path that the engine resolves. `tmpdir` names the folder of
    temporary files in a node's folder; empty for the engine's.
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
    """What a run starts. Secrets are passed next to the Plans, never in them.

    `setup` is the setup task of its cluster, with a process for each node. `port_count` is the number of free
    ports that the Plans refer to.
    """

    plan: Plan
    preparation: Plan | None = None
    setup: Plan | None = None
    is_setup_elevated: bool = False
    port_count: int = 0
    registry_password: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeSetup:
    """What a node of a cluster mounts and runs before it takes runs; without a Plan, nothing.

    The Plan refers to one node.
    """

    plan: Plan | None = None
    is_elevated: bool = False


@dataclass(frozen=True)
class RunAttempt:
    """One try of a run on a set of nodes. `ended` is None while it runs; times are in seconds since 1970."""

    nodes: tuple[str, ...]
    started: float
    ended: float | None = None
    reason: str = ""


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
        """Checks that the engine can satisfy a cluster's request, and selects its nodes.

        Nothing is changed yet: the state is recorded first, then `resized` is called.

        Args:
            request: The requested nodes.
            before: The existing cluster, None for a new one.
            busy: The guid of the run on each busy node, by node name.
            others: The states of all other clusters.

        Raises:
            SpecError, CapabilityError: The engine cannot satisfy it.
        """

    def resized(
        self, cluster: ClusterRef, runs: Sequence[tuple[Run, RunStatus]], option: DeallocationOption
    ) -> None:
        """Applies the size of a new or resized cluster to its nodes and open runs, as the option says."""

    def set_up(
        self, cluster_guid: str, node_setup: Callable[[Site], NodeSetup], secrets: Mapping[str, str]
    ) -> None:
        """Stores how the nodes of a new cluster are set up, if it does so itself, and its task's secrets."""

    def nodes(self, cluster: ClusterRef, busy: Mapping[str, str]) -> Sequence[NodeStatus]:
        """The nodes of a cluster; `busy` is as for `allocate`, and evaluated lazily."""

    def warnings(self, cluster: ClusterRef) -> Sequence[ClusterWarning]:
        """What the users of a cluster should know: shown with it, and in the logs of its jobs."""

    def remove_cluster(self, cluster_guid: str) -> None:
        """Deletes what is stored about a deleted cluster."""

    def admit(self, request: RunRequest, cluster: ClusterRef) -> EngineState:
        """Checks that the engine can run a job; returns the engine state of its run.

        Raises:
            SpecError: For options that a job must not set, or that the cluster cannot satisfy.
        """

    def container_engine(self, *, has_credentials: bool) -> tuple[str, ...]:
        """The command that runs a job's containers on nodes; empty if jobs run without their image.

        Raises:
            CapabilityError: There is no container engine, or it cannot sign in to a private registry.
        """

    def site(self, cluster: ClusterRef) -> Site:
        """What the Plan of a run on a cluster depends on."""

    def prepare(self, run: Run, launch: Launch) -> None:
        """Writes what the engine needs to start a run; the caller removes the run's folder on failure."""

    def submit(self, run: Run, cluster: ClusterRef) -> None:
        """Queues a prepared run, in the transaction that records it if both are in one database.

        Raises:
            ServiceError: The engine refused it; has the engine's message.
        """

    def poll(self, runs: Sequence[Run]) -> Sequence[RunStatus]:
        """The status of each run, including runs that their engine ended without a report."""

    def footprint(self, runs: Sequence[Run], clusters: Sequence[str] = ()) -> Footprint:
        """The files of a home to read for the status of these runs and clusters (by guid)."""

    def stop(self, runs: Sequence[Run], *, now: bool = False) -> None:
        """Asks runs to stop for a user; pending ones end at once. No effect on those that have ended.

        With `now`, the processes of those that were asked before are killed, if the engine can.
        """

    def cluster_deleted(self, run: Run, text: str) -> None:
        """Ends an open run whose cluster is deleted: with `text` as the reason if it runs, else at once."""

    def close(self) -> None:
        """Releases connections and files; runs continue."""


@runtime_checkable
class SubmitsTogether(Protocol):
    """An engine that can queue several prepared runs of a cluster at once."""

    def submit_together(self, runs: Sequence[Run], cluster: ClusterRef) -> None:
        """Queues prepared runs as `submit` does; of each group, only as many run at once as it may.

        Raises:
            ServiceError: The engine refused them.
        """


class NodeShell(Protocol):
    """An engine that can run commands on nodes: the facet `node_commands`."""

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
