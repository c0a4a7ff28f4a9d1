"""Workspaces, experiments, clusters and file servers, built from their pydantic specs in the database."""

from __future__ import annotations

import sqlite3
from functools import lru_cache

from batchai_magics.backends.local.state import cluster_table, node_table
from batchai_magics.backends.local.state.node_table import NodeRow
from batchai_magics.backends.local.state.resource_table import ResourceRow
from batchai_magics.backends.local.state.table_rows import to_datetime
from batchai_magics.backends.service import quotas
from batchai_magics.backends.service.descriptions import with_image
from batchai_magics.models.cluster_spec import ClusterSpec, NodeStateCounts, VmPriority
from batchai_magics.models.error_details import ErrorDetail, NameValue
from batchai_magics.models.file_server import FileServer, FileServerSpec, MountSettings
from batchai_magics.models.provisioning import Provisioning
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import Cluster, Experiment, Resource, Workspace, WorkspaceSpec
from batchai_magics.models.states import AllocationState, NodeState

LOOPBACK = "127.0.0.1"  # the address of all file servers


def resource(db: sqlite3.Connection, row: ResourceRow) -> Resource:
    """A resource from its row and related tables."""
    id, provisioning = row.id, _provisioning(row)
    if id.kind is Kind.CLUSTER:
        return _cluster(db, id, cluster_spec(row.spec), provisioning)
    if id.kind is Kind.FILE_SERVER:
        mount = MountSettings(public_ip=LOOPBACK, internal_ip=LOOPBACK)
        return FileServer(id, FileServerSpec.from_stored(row.spec), provisioning, mount)
    if id.kind is Kind.EXPERIMENT:
        return Experiment(id, provisioning)
    spec = WorkspaceSpec.from_stored(row.spec)
    return Workspace(id, spec.location, provisioning, spec.tags or {})


@lru_cache(maxsize=256)
def cluster_spec(text: str) -> ClusterSpec:
    """The cluster spec in a row, with the service's defaults."""
    return with_image(ClusterSpec.from_stored(text))


def _provisioning(row: ResourceRow) -> Provisioning:
    created = to_datetime(row.created)
    return Provisioning(created, created)


def _cluster(db: sqlite3.Connection, id: ResourceId, spec: ClusterSpec, made: Provisioning) -> Cluster:
    row, counts = cluster_table.get(db, id.key), node_table.counts(db, id.key)
    is_steady = sum(counts.values()) == row.target and not (
        counts.get(NodeState.PREPARING) or counts.get(NodeState.LEAVING)
    )
    return Cluster(
        id=id,
        spec=spec,
        provisioning=made,
        allocation_state=AllocationState.STEADY if is_steady else AllocationState.RESIZING,
        allocation_changed=to_datetime(row.changed),
        node_states=NodeStateCounts(
            **{f"{state.value}_node_count": counts.get(state, 0) for state in NodeState}
        ),
        errors=tuple(_node_error(node) for node in node_table.of_cluster(db, id.key) if node.error),
    )


def _node_error(node: NodeRow) -> ErrorDetail:
    details = (NameValue(name="NodeId", value=node.id),)
    return ErrorDetail(code="NodeSetupFailed", message=node.error, details=details)


def quota_nodes(db: sqlite3.Connection, *, except_for: str = "") -> list[quotas.Nodes]:
    """The target nodes of every cluster but one, for quotas."""
    specs = [(cluster_spec(spec), target) for spec, target in cluster_table.sizes(db, except_for=except_for)]
    low = VmPriority.LOW_PRIORITY
    return [quotas.Nodes(spec.vm_size, target, spec.vm_priority is low) for spec, target in specs]
