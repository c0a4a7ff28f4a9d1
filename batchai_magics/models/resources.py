"""Resources as a backend shows them: the description plus what became of it, to the service's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from batchai_magics.models.cluster import ClusterSpec, NodeStateCounts
from batchai_magics.models.execution import ErrorDetail, ExecutionInfo, RankExit
from batchai_magics.models.file_server import FileServer
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.job import JobSpec
from batchai_magics.models.provisioning import Provisioning, head
from batchai_magics.models.states import AllocationState, ExecutionState, NodeState
from batchai_magics.models.times import wire_time


@dataclass(frozen=True)
class Workspace:
    """A workspace as it stands."""

    id: ResourceId
    location: str
    provisioning: Provisioning
    tags: Mapping[str, str] = field(default_factory=dict)

    def to_wire(self) -> dict[str, Any]:
        """The service's JSON."""
        extra = {"tags": dict(self.tags)} if self.tags else {}
        properties = self.provisioning.to_wire()
        return {**head(self.id), "location": self.location, **extra, "properties": properties}


@dataclass(frozen=True)
class Experiment:
    """An experiment (a named set of jobs) as it stands."""

    id: ResourceId
    provisioning: Provisioning

    def to_wire(self) -> dict[str, Any]:
        """The service's JSON."""
        return {**head(self.id), "properties": self.provisioning.to_wire()}


@dataclass(frozen=True)
class Cluster:
    """A cluster as it stands."""

    id: ResourceId
    spec: ClusterSpec
    provisioning: Provisioning
    allocation_state: AllocationState
    allocation_changed: datetime
    node_states: NodeStateCounts
    errors: tuple[ErrorDetail, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False)  # for who made it, once; not on the wire

    def to_wire(self) -> dict[str, Any]:
        """The service's JSON, without any secret."""
        spec = self.spec.to_wire()["properties"]
        properties = {
            **self.provisioning.to_wire(),
            "allocationState": self.allocation_state.value,
            "allocationStateTransitionTime": wire_time(self.allocation_changed),
            "vmSize": spec.pop("vmSize"),
            "currentNodeCount": self.node_states.total,
            "nodeStateCounts": self.node_states.to_wire(),
            **spec,
        }
        if self.errors:
            properties["errors"] = [error.to_wire() for error in self.errors]
        return {**head(self.id), "properties": properties}


@dataclass(frozen=True)
class JobResource:
    """A job as it stands. `ranks` is what became of each process, first failure first (may be empty)."""

    id: ResourceId
    spec: JobSpec
    provisioning: Provisioning
    state: ExecutionState
    state_changed: datetime
    output_path_segment: str
    execution: ExecutionInfo | None = None
    ranks: tuple[RankExit, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """The service's JSON, without any secret."""
        spec = self.spec.to_wire()["properties"]
        priority, cluster = spec.pop("schedulingPriority"), spec.pop("cluster")
        properties = {
            "experimentName": self.id.experiment,
            "schedulingPriority": priority,
            "cluster": cluster,
            "jobOutputDirectoryPathSegment": self.output_path_segment,
            "nodeCount": spec.pop("nodeCount"),
            "toolType": self.spec.toolkit.tool_type,
            **spec,
            **self.provisioning.to_wire(),
            "executionState": self.state.value,
            "executionStateTransitionTime": wire_time(self.state_changed),
        }
        if self.execution:
            properties["executionInfo"] = self.execution.to_wire()
        return {**head(self.id), "properties": properties}


@dataclass(frozen=True)
class Node:
    """One node of a cluster: its id, what it does, for which job, and since when (where that is known)."""

    id: str
    state: NodeState
    job: ResourceId | None = None
    ip_address: str = "127.0.0.1"
    port: int = 22
    since: datetime | None = None


Resource = Workspace | Experiment | Cluster | JobResource | FileServer
