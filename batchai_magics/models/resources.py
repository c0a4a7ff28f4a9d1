"""Resources as a backend shows them: the description plus what became of it, in the service's JSON."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from batchai_magics.models.cluster import ClusterSpec, NodeStateCounts
from batchai_magics.models.file_server import FileServerSpec, MountSettings
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.job import JobSpec
from batchai_magics.models.states import AllocationState, ExecutionState, NodeState
from batchai_magics.models.wire import WireModel, wire_time


class ProvisioningState(enum.Enum):
    """Whether the resource itself is there."""

    CREATING = "creating"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DELETING = "deleting"


class NameValue(WireModel):
    """A detail of an error."""

    name: str
    value: str


class ErrorDetail(WireModel):
    """Why a job or a node failed: a fixed code, a sentence, details."""

    code: str
    message: str
    details: tuple[NameValue, ...] | None = None


@dataclass(frozen=True)
class Provisioning:
    """When a resource was made and whether it is there."""

    created: datetime
    changed: datetime
    state: ProvisioningState = ProvisioningState.SUCCEEDED

    def to_wire(self) -> dict[str, Any]:
        """The three fields every resource carries."""
        return {
            "creationTime": wire_time(self.created),
            "provisioningState": self.state.value,
            "provisioningStateTransitionTime": wire_time(self.changed),
        }


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
        head = {**_head(self.id), "location": self.location, **extra}
        return {**head, "properties": self.provisioning.to_wire()}


@dataclass(frozen=True)
class Experiment:
    """An experiment (a named set of jobs) as it stands."""

    id: ResourceId
    provisioning: Provisioning

    def to_wire(self) -> dict[str, Any]:
        """The service's JSON."""
        return {**_head(self.id), "properties": self.provisioning.to_wire()}


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
        return {**_head(self.id), "properties": properties}


@dataclass(frozen=True)
class ExecutionInfo:
    """When a job ran, and how it ended. A terminated job has no exit code."""

    started: datetime
    ended: datetime | None = None
    exit_code: int | None = None
    errors: tuple[ErrorDetail, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """The service's JSON."""
        data: dict[str, Any] = {"startTime": wire_time(self.started)}
        if self.ended:
            data["endTime"] = wire_time(self.ended)
        if self.exit_code is not None:
            data["exitCode"] = self.exit_code
        if self.errors:
            data["errors"] = [error.to_wire() for error in self.errors]
        return data


@dataclass(frozen=True)
class RankExit:
    """How one process ended: its rank, its node's name, its exit code (128 + signal if killed).

    `exit_code` is None for a process that was ended together with the job, not by itself.
    """

    rank: int
    node: str
    exit_code: int | None
    ended: datetime | None = None


@dataclass(frozen=True)
class Job:
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
        return {**_head(self.id), "properties": properties}


@dataclass(frozen=True)
class Node:
    """One node of a cluster: its id, what it does, for which job, and since when (where that is known)."""

    id: str
    state: NodeState
    job: ResourceId | None = None
    ip_address: str = "127.0.0.1"
    port: int = 22
    since: datetime | None = None


@dataclass(frozen=True)
class FileServer:
    """A file server as it stands."""

    id: ResourceId
    spec: FileServerSpec
    provisioning: Provisioning
    mount: MountSettings = field(default_factory=MountSettings)

    def to_wire(self) -> dict[str, Any]:
        """The service's JSON, without any secret."""
        spec = self.spec.to_wire()["properties"]
        properties = {**self.provisioning.to_wire(), **spec, "mountSettings": self.mount.to_wire()}
        return {**_head(self.id), "properties": properties}


Resource = Workspace | Experiment | Cluster | Job | FileServer


def _head(id: ResourceId) -> dict[str, Any]:
    return {"id": str(id), "name": id.name, "type": id.kind.wire_type}
