"""Rows of the store become resources, as the service would show them."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from batchai_magics.backends.base import Listing, Page
from batchai_magics.backends.local.state import clusters, nodes, resources, stored_jobs
from batchai_magics.backends.local.state.nodes import NodeRow
from batchai_magics.backends.local.state.resources import ResourceRow
from batchai_magics.backends.local.state.rows import columns, moment
from batchai_magics.backends.service import quotas
from batchai_magics.backends.service.descriptions import with_image
from batchai_magics.models.cluster import ClusterSpec, NodeStateCounts, VmPriority
from batchai_magics.models.execution import ErrorDetail, NameValue
from batchai_magics.models.file_server import FileServer, FileServerSpec, MountSettings
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.provisioning import Provisioning
from batchai_magics.models.resources import (
    Cluster,
    Experiment,
    Node,
    Resource,
    Workspace,
    WorkspaceSpec,
)
from batchai_magics.models.states import AllocationState, ExecutionState, NodeState

LOOPBACK = "127.0.0.1"  # where all nodes and file servers of this machine are


def inside(db: sqlite3.Connection, parent: ResourceId, kind: Kind, page: Page) -> Listing:
    """The resources of a kind inside `parent`, oldest first; all workspaces of its resource group."""
    if kind is Kind.JOB:
        return Listing(*stored_jobs.inside(db, parent, page))
    found = resources.children(db, parent, kind, page)
    shown = found[: page.size]
    after = None if len(found) == len(shown) else Page(page.size, str(shown[-1].seq))
    return Listing([resource(db, row) for row in shown], after)


def some(db: sqlite3.Connection, ids: Collection[ResourceId]) -> list[Resource]:
    """Those of these resources that there are; the jobs among them are asked for at once."""
    runs = stored_jobs.some(db, [id.key for id in ids if id.kind is Kind.JOB])
    others = resources.some(db, [id for id in ids if id.kind is not Kind.JOB])
    return [*runs, *(resource(db, row) for row in others)]


def resource(db: sqlite3.Connection, row: ResourceRow) -> Resource:
    """A resource as it stands, from its row and what the other tables know of it."""
    id, provisioning = row.id, _provisioning(row)
    if id.kind is Kind.JOB:
        return stored_jobs.some(db, [id.key])[0]
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
    """The cluster description in a row, with what the service adds to it."""
    return with_image(ClusterSpec.from_stored(text))


def _provisioning(row: ResourceRow) -> Provisioning:
    created = moment(row.created)
    return Provisioning(created, created)


def _cluster(db: sqlite3.Connection, id: ResourceId, spec: ClusterSpec, made: Provisioning) -> Cluster:
    row, counts = clusters.get(db, id.key), nodes.counts(db, id.key)
    is_steady = sum(counts.values()) == row.target and not (
        counts.get(NodeState.PREPARING) or counts.get(NodeState.LEAVING)
    )
    return Cluster(
        id=id,
        spec=spec,
        provisioning=made,
        allocation_state=AllocationState.STEADY if is_steady else AllocationState.RESIZING,
        allocation_changed=moment(row.changed),
        node_states=NodeStateCounts(
            **{f"{state.value}_node_count": counts.get(state, 0) for state in NodeState}
        ),
        errors=tuple(_node_error(node) for node in nodes.of_cluster(db, id.key) if node.error),
    )


def _node_error(node: NodeRow) -> ErrorDetail:
    details = (NameValue(name="NodeId", value=node.id),)
    return ErrorDetail(code="NodeSetupFailed", message=node.error, details=details)


def nodes_of(db: sqlite3.Connection, id: ResourceId) -> list[Node]:
    """The nodes of a cluster, or those that a job has, each with the job that it runs."""
    column = "node.cluster" if id.kind is Kind.CLUSTER else "job.key"
    query = (
        "SELECT node.*, resource.id AS job_id FROM node LEFT JOIN job ON job.guid = node.job"
        f" LEFT JOIN resource ON resource.key = job.key WHERE {column} = ? ORDER BY ordinal"
    )
    return [_node(**columns(row)) for row in db.execute(query, (id.key,)).fetchall()]


def ahead(db: sqlite3.Connection, id: ResourceId) -> list[ResourceId]:
    """The jobs that get nodes before one that waits, in their turn."""
    query = (
        "SELECT resource.id FROM job JOIN job AS own ON own.key = ? JOIN resource ON resource.key = job.key"
        " WHERE job.cluster = own.cluster AND job.state = ? AND job.is_assigned = 0"
        " AND (job.priority > own.priority OR (job.priority = own.priority AND job.rowid < own.rowid))"
        " ORDER BY job.priority DESC, job.rowid"
    )
    rows = db.execute(query, (id.key, ExecutionState.QUEUED.value))
    return [ResourceId.parse(found) for (found,) in rows]


def _node(*, job_id: str | None, **columns: Any) -> Node:
    row, job = NodeRow.of(columns), ResourceId.parse(job_id) if job_id else None
    return Node(row.id, row.state, job, LOOPBACK, since=moment(row.since))


def quota_nodes(db: sqlite3.Connection, *, except_for: str = "") -> list[quotas.Nodes]:
    """The nodes that each cluster but for one is to have, as quotas count them."""
    specs = [(cluster_spec(spec), target) for spec, target in clusters.sizes(db, except_for=except_for)]
    low = VmPriority.LOW_PRIORITY
    return [quotas.Nodes(spec.vm_size, target, spec.vm_priority is low) for spec, target in specs]
