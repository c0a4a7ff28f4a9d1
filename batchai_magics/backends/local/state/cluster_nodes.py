"""The nodes of clusters and jobs, and the queue before a job, as the tables have them."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from batchai_magics.backends.local.state.node_table import NodeRow
from batchai_magics.backends.local.state.run_status import LOOPBACK
from batchai_magics.backends.local.state.table_rows import columns, to_datetime
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.states import ExecutionState

if TYPE_CHECKING:
    from batchai_magics.models.resources import Node


def nodes_of(db: sqlite3.Connection, id: ResourceId) -> list[Node]:
    """The nodes of a cluster or job, each with the job that it runs."""
    column = "node.cluster" if id.kind is Kind.CLUSTER else "job.key"
    query = (
        "SELECT node.*, resource.id AS job_id FROM node LEFT JOIN job ON job.guid = node.job"
        f" LEFT JOIN resource ON resource.key = job.key WHERE {column} = ? ORDER BY ordinal"
    )
    return [_node(**columns(row)) for row in db.execute(query, (id.key,)).fetchall()]


def jobs_ahead_of(db: sqlite3.Connection, id: ResourceId) -> list[ResourceId]:
    """The queued jobs that are scheduled before one, in order."""
    query = (
        "SELECT resource.id FROM job JOIN job AS own ON own.key = ? JOIN resource ON resource.key = job.key"
        " WHERE job.cluster = own.cluster AND job.state = ? AND job.is_assigned = 0"
        " AND (job.priority > own.priority OR (job.priority = own.priority AND job.rowid < own.rowid))"
        " ORDER BY job.priority DESC, job.rowid"
    )
    rows = db.execute(query, (id.key, ExecutionState.QUEUED.value))
    return [ResourceId.parse(found) for (found,) in rows]


def _node(*, job_id: str | None, **columns: Any) -> Node:
    from batchai_magics.models.resources import Node

    row, job = NodeRow.of(columns), ResourceId.parse(job_id) if job_id else None
    return Node(row.id, row.state, job, LOOPBACK, since=to_datetime(row.since))
