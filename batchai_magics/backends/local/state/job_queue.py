"""Queues of clusters: jobs that wait for nodes, and which is next."""

from __future__ import annotations

import sqlite3
import time

from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.models.states import ExecutionState, NodeState


def waiting_clusters(db: sqlite3.Connection) -> list[str]:
    """The clusters with idle nodes and queued jobs; cost is independent of queue length."""
    query = (
        "SELECT DISTINCT cluster FROM node WHERE state = ? AND EXISTS"
        " (SELECT 1 FROM job WHERE job.cluster = node.cluster AND job.state = ? AND is_assigned = 0)"
    )
    return [cluster for (cluster,) in db.execute(query, (NodeState.IDLE.value, ExecutionState.QUEUED.value))]


def next_job(db: sqlite3.Connection, cluster: str) -> JobRow | None:
    """The next job of a cluster's queue, by priority, then by creation.

    Skips jobs whose secrets no process holds: they are being created, or the secrets are lost.
    """
    query = (
        "SELECT * FROM job WHERE cluster = ? AND state = ? AND is_assigned = 0"
        " AND (needs_secrets = 0 OR supervisor != '') ORDER BY priority DESC, rowid LIMIT 1"
    )
    row = db.execute(query, (cluster, ExecutionState.QUEUED.value)).fetchone()
    return JobRow.of(row) if row else None


def nodes_waited_for(db: sqlite3.Connection, cluster: str) -> int:
    """The number of nodes that all queued jobs of a cluster need."""
    query = "SELECT coalesce(sum(node_count), 0) FROM job WHERE cluster = ? AND state = ? AND is_assigned = 0"
    (count,) = db.execute(query, (cluster, ExecutionState.QUEUED.value)).fetchone()
    return int(count)


def has_room_for(db: sqlite3.Connection, job: JobRow) -> bool:
    """Whether a queued job's cluster has enough idle nodes and no other queued job."""
    query = "SELECT count(*) FROM node WHERE cluster = ? AND state = ?"
    (idle,) = db.execute(query, (job.cluster, NodeState.IDLE.value)).fetchone()
    others = "SELECT 1 FROM job WHERE cluster = ? AND state = ? AND is_assigned = 0 AND guid != ? LIMIT 1"
    values = (job.cluster, ExecutionState.QUEUED.value, job.guid)
    return job.node_count <= int(idle) and db.execute(others, values).fetchone() is None


def assign(db: sqlite3.Connection, job: JobRow, *, spawner: str) -> JobRow:
    """Marks a job as assigned, with the process that starts its supervisor; returns the new row."""
    assigned = job._replace(is_assigned=True, changed=time.time(), spawner=spawner)
    values = (assigned.changed, spawner, job.key)
    db.execute("UPDATE job SET is_assigned = 1, changed = ?, spawner = ? WHERE key = ?", values)
    return assigned
