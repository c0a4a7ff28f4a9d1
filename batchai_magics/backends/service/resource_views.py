"""Converts records and the status of runs and nodes to resources. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from batchai_magics.backends.service.repository import Record
from batchai_magics.backends.service.runner import ClusterWarning, NodeStatus, RunStatus
from batchai_magics.backends.service.stored_descriptions import moment
from batchai_magics.models.cluster_spec import (
    ClusterSpec,
    ImageReference,
    NodeStateCounts,
    VirtualMachineConfiguration,
)
from batchai_magics.models.error_details import ErrorDetail, NameValue
from batchai_magics.models.file_server import FileServer, FileServerSpec, MountSettings
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import Cluster, Experiment, Node, Resource, Workspace, WorkspaceSpec
from batchai_magics.models.response_object import Provisioning
from batchai_magics.models.states import AllocationState, NodeState

_IMAGE = ImageReference(publisher="Canonical", offer="UbuntuServer", sku="16.04-LTS", version="latest")
CHANGED = "changed"  # in a cluster's `more`: when it was last resized


def of_record(record: Record, file_server_address: str = "") -> Resource:
    """A workspace, an experiment, or a file server: a folder that nodes share, at the address to reach it."""
    id, provisioning = record.resource_id, _provisioning(record)
    if record.kind is Kind.EXPERIMENT:
        return Experiment(id, provisioning)
    if record.kind is Kind.WORKSPACE:
        spec = WorkspaceSpec.from_stored(record.spec)
        return Workspace(id, spec.location, provisioning, spec.tags or {})
    mount = MountSettings()
    if address := file_server_address:
        mount = MountSettings(public_ip=address, internal_ip=address)
    return FileServer(id, FileServerSpec.from_stored(record.spec), provisioning, mount)


def cluster(record: Record, nodes: Sequence[NodeStatus], warnings: Sequence[ClusterWarning] = ()) -> Cluster:
    """A cluster with the status of its nodes."""
    states = [node.state for node in nodes]
    is_moving = NodeState.PREPARING in states or NodeState.LEAVING in states
    return Cluster(
        id=record.resource_id,
        spec=cluster_spec(record.spec),
        provisioning=_provisioning(record),
        allocation_state=AllocationState.RESIZING if is_moving else AllocationState.STEADY,
        allocation_changed=moment(record.more[CHANGED]),
        node_states=NodeStateCounts.counting(states),
        partition=record.more.get("partition", ""),
        errors=(
            *(ErrorDetail(code=warning.code, message=warning.message) for warning in warnings),
            *(
                ErrorDetail(
                    code=node.code,
                    message=node.reason,
                    details=(NameValue(name="NodeId", value=node.name),),
                )
                for node in nodes
                if node.reason
            ),
        ),
    )


def nodes_of_job(id: ResourceId, status: RunStatus) -> list[Node]:
    """The nodes that a job currently holds."""
    since = None if status.started is None else moment(status.started)
    return [Node(name, NodeState.RUNNING, id, ip_address=name, since=since) for name in status.nodes]


def node(status: NodeStatus, running: Mapping[str, Node]) -> Node:
    """A node of a cluster; `running` are the nodes held by jobs, by name."""
    held = running.get(status.name)
    if held is None:
        return Node(status.name, status.state, ip_address=status.address)
    return Node(held.id, status.state, held.job, held.ip_address, since=held.since)


@lru_cache(maxsize=256)
def cluster_spec(text: str) -> ClusterSpec:
    """The cluster description in a record, with the node image that the service chose.

    That is its own if none, or no version, is given.
    """
    spec = ClusterSpec.from_stored(text)
    requested = spec.virtual_machine_configuration
    image = requested.image_reference if requested and requested.image_reference else _IMAGE
    is_complete = image.version or image.virtual_machine_image_id
    complete = image if is_complete else image.model_copy(update={"version": _IMAGE.version})
    machine = VirtualMachineConfiguration(image_reference=complete)
    return spec.model_copy(update={"virtual_machine_configuration": machine})


def _provisioning(record: Record) -> Provisioning:
    created = moment(record.created)
    return Provisioning(created, created)
