"""An engine in memory, whose runs do what a test says, and the service over it in a home of real files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from batchai_magics.backends.base import Capabilities
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.node.job_environment import RUN_SCRIPT
from batchai_magics.backends.service.file_repository import FileRepository
from batchai_magics.backends.service.runner import (
    ClusterChange,
    ClusterRef,
    ClusterRequest,
    EngineFacts,
    EngineSite,
    EngineState,
    NodeStatus,
    PlannedRun,
    Request,
    Run,
    Runner,
    RunStatus,
)
from batchai_magics.backends.service.service import Service
from batchai_magics.launch.outcome import Outcome
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import Cluster, ExperimentSpec, JobResource, WorkspaceSpec
from batchai_magics.models.states import DeallocationOption, ExecutionState, NodeState
from tests.wire_bodies import plain_cluster, plain_job

CAPABILITIES = Capabilities(name="memory")
WORKSPACE = ResourceId("s", "g", "w", Kind.WORKSPACE, "w")
EXPERIMENT = WORKSPACE.child(Kind.EXPERIMENT, "e")
CLUSTER = WORKSPACE.child(Kind.CLUSTER, "c")


class Facts(EngineFacts):
    """An engine without a daemon of its own."""

    capabilities = CAPABILITIES

    @property
    def site(self) -> EngineSite:
        return EngineSite(sys.executable, RUN_SCRIPT, {}, core_count=1, disk_grace_s=60.0)


@dataclass
class Resize:
    """What the engine was told of a cluster's new size."""

    cluster: ClusterRef
    runs: Sequence[tuple[Run, RunStatus]]
    option: DeallocationOption


@dataclass
class Engine(Runner):
    """A `Runner`: runs wait until a test starts them, and run until it ends them."""

    facts: Facts = field(default_factory=Facts)
    statuses: dict[str, RunStatus] = field(default_factory=dict)
    resizes: list[Resize] = field(default_factory=list)
    ends_when_stopped: bool = True

    def start(self, guid: str, *nodes: str) -> None:
        """The run gets its nodes."""
        self.statuses[guid] = RunStatus(ExecutionState.RUNNING, 20.0, 20.0, nodes)

    def end(self, guid: str, exit_code: int = 0, **error: str) -> None:
        """The run ends."""
        state = ExecutionState.FAILED if exit_code or error else ExecutionState.SUCCEEDED
        result = Outcome(exit_code, (error,) if error else (), ended=30.0)
        self.statuses[guid] = RunStatus(state, 30.0, 20.0, result=result)

    def check(self, request: Request, cluster: ClusterRef | None) -> EngineState:
        if isinstance(request, ClusterRequest):
            return {"size": request.scale.maximum}
        return {"node_count": request.node_count}

    def apply(self, cluster: ClusterRef, change: ClusterChange | None) -> None:
        if change and not change.setup:
            self.resizes.append(Resize(cluster, change.runs, change.option))

    def nodes(self, cluster: ClusterRef, busy: Mapping[str, str]) -> Sequence[NodeStatus]:
        names = [f"node{number}" for number in range(1, cluster.state["size"] + 1)]
        states = [NodeState.RUNNING if name in busy else NodeState.IDLE for name in names]
        return [NodeStatus(name, state) for name, state in zip(names, states, strict=True)]

    def submit(self, runs: Sequence[PlannedRun]) -> None:
        for planned in runs:
            run = planned.run
            self.statuses[run.guid] = RunStatus(ExecutionState.QUEUED, run.created, waiting="for its turn")

    def status(self, runs: Sequence[Run]) -> Sequence[RunStatus]:
        return [self.statuses[run.guid] for run in runs]

    def stop(self, runs: Sequence[Run], reason: str = "", *, grace_s: float | None = None) -> None:
        for run in runs:
            if self.statuses[run.guid].is_open and self.ends_when_stopped:
                self.end(run.guid, 130, code="Stopped", message=reason)

    def reconcile(self) -> None:
        """Does nothing: a test starts and ends runs."""

    def close(self) -> None:
        """Has nothing open."""


@dataclass
class EngineHome:
    """A service over an engine in memory; its home is a folder."""

    service: Service
    engine: Engine
    layout: Layout

    def guid(self, id: ResourceId) -> str:
        """The guid of a resource."""
        return self.service.context.repository.get(id).guid

    def cluster(self, id: ResourceId = CLUSTER) -> Cluster:
        """Creates a cluster of two nodes."""
        return self.service.create(id, cluster_spec())

    def job(self, name: str = "j", **properties: object) -> JobResource:
        """Creates a job."""
        return self.service.create(EXPERIMENT.child(Kind.JOB, name), job_spec(**properties))


def cluster_spec(count: int = 2, **properties: object) -> ClusterSpec:
    """A cluster of so many nodes."""
    return ClusterSpec.from_wire(plain_cluster(count, **properties))


def job_spec(**properties: object) -> JobSpec:
    """A job on one node of the cluster."""
    return JobSpec.from_wire(plain_job(CLUSTER, **properties))


def filled(home: Path) -> EngineHome:
    """A service over an engine in memory, with a workspace, an experiment and a cluster of two nodes."""
    layout, engine = Layout(home), Engine()
    service = Service(FileRepository(layout), engine, setting="memory.home", core_quota=100)
    made = EngineHome(service, engine, layout)
    service.create(WORKSPACE, WorkspaceSpec(location="eastus"))
    service.create(EXPERIMENT, ExperimentSpec())
    made.cluster()
    return made
