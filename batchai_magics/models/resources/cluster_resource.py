"""Cluster and node resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.response_object import Provisioning, ResponseObject, WireObject, head
from batchai_magics.models.states import AllocationState, NodeState
from batchai_magics.models.wire_times import wire_time

if TYPE_CHECKING:
    from batchai_magics.models.cluster_spec import ClusterSpec, NodeStateCounts
    from batchai_magics.models.error_details import ErrorDetail


PARTITION = "batchaiPartition"  # beside its size: the engine's partition
NOTES = "batchaiNotes"  # beside properties of a new cluster or job: messages for its creator
NODE_STATE, NODE_JOB, NODE_SINCE = "batchaiState", "batchaiJob", "batchaiSince"  # beside a node's address


@dataclass(frozen=True)
class Cluster:
    """A cluster."""

    id: ResourceId
    spec: ClusterSpec  # what it was created or last updated with
    provisioning: Provisioning  # its creation time and provisioning state
    allocation_state: AllocationState  # whether nodes are being added or removed
    allocation_changed: datetime  # when that changed, in UTC
    node_states: NodeStateCounts  # the number of nodes in each state
    errors: tuple[ErrorDetail, ...] = ()  # why nodes are unusable
    partition: str = ""  # the partition of the engine that its nodes are in; empty where there are none
    notes: tuple[str, ...] = field(default=(), compare=False)  # messages for its creator; not in its JSON

    def with_notes(self, notes: Sequence[str]) -> Cluster:
        """The cluster with messages for its creator."""
        return replace(self, notes=tuple(notes))

    def to_wire(self) -> WireObject:
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
        if self.partition:
            properties[PARTITION] = self.partition
        if self.errors:
            properties["errors"] = [error.to_wire() for error in self.errors]
        return {**head(self.id), "properties": properties}

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Cluster:
        """Reads the service's JSON; ServiceError names the path of a field that is missing or invalid."""
        from batchai_magics.models.cluster_spec import ClusterSpec, NodeStateCounts
        from batchai_magics.models.error_details import ErrorDetail

        response = ResponseObject.of(data, "the cluster")
        properties = response.object("properties")
        provisioning = Provisioning.from_wire(properties.fields)
        return cls(
            id=response.id(),
            spec=properties.model(ClusterSpec),
            provisioning=provisioning,
            allocation_state=properties.choice("allocationState", AllocationState, AllocationState.STEADY),
            allocation_changed=properties.time("allocationStateTransitionTime", provisioning.created),
            node_states=properties.object("nodeStateCounts").model(NodeStateCounts),
            errors=tuple(ErrorDetail.from_wire(error) for error in properties.items("errors")),
            partition=properties.text(PARTITION, ""),
            notes=tuple(map(str, data.get(NOTES) or ())),
        )


@dataclass(frozen=True)
class Node:
    """A node of a cluster or job."""

    id: str
    state: NodeState
    job: ResourceId | None = None  # the job that it runs, if any
    ip_address: str = ""  # its address for ssh
    port: int = 22  # its port for ssh
    since: datetime | None = None  # when its state changed, in UTC, where known

    def to_wire(self) -> WireObject:
        """The service's JSON of a node's address, extended by its state."""
        data = {"nodeId": self.id, "ipAddress": self.ip_address, "port": self.port}
        data[NODE_STATE] = self.state.value
        if self.job:
            data[NODE_JOB] = str(self.job)
        if self.since:
            data[NODE_SINCE] = wire_time(self.since)
        return data

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Node:
        """Reads the service's JSON; a node without a state is idle.

        Raises:
            ServiceError: A field is missing or invalid.
        """
        response = ResponseObject.of(data, "the node")
        return cls(
            id=response.text("nodeId"),
            state=response.choice(NODE_STATE, NodeState, NodeState.IDLE),
            job=response.id(NODE_JOB) if response.has(NODE_JOB) else None,
            ip_address=response.text("ipAddress"),
            port=response.number("port"),
            since=response.optional_time(NODE_SINCE),
        )
