"""The queue of each cluster: its jobs that wait for nodes, and the one that is the next to get some."""

from __future__ import annotations

import sqlite3
import time

from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.models.states import ExecutionState, NodeState


def waiting_clusters(db: sqlite3.Connection) -> list[str]:
    """The clusters that have idle nodes and jobs that wait for some; the length of a queue is nothing."""
    query = (
        "SELECT DISTINCT cluster FROM node WHERE state = ? AND EXISTS"
        " (SELECT 1 FROM job WHERE job.cluster = node.cluster AND job.state = ? AND is_assigned = 0)"
    )
    return [cluster for (cluster,) in db.execute(query, (NodeState.IDLE.value, ExecutionState.QUEUED.value))]


def next_job(db: sqlite3.Connection, cluster: str) -> JobRow | None:
    """The job that is the next to get nodes of a cluster: by priority, then in the order of their making.

    One whose secrets nobody holds is passed over: it is being made just now, or they are lost.
    """
    query = (
        "SELECT * FROM job WHERE cluster = ? AND state = ? AND is_assigned = 0"
        " AND (needs_secrets = 0 OR supervisor != '') ORDER BY priority DESC, rowid LIMIT 1"
    )
    row = db.execute(query, (cluster, ExecutionState.QUEUED.value)).fetchone()
    return JobRow.of(row) if row else None


def nodes_waited_for(db: sqlite3.Connection, cluster: str) -> int:
    """How many nodes all jobs together want that wait for a cluster."""
    query = "SELECT coalesce(sum(node_count), 0) FROM job WHERE cluster = ? AND state = ? AND is_assigned = 0"
    (count,) = db.execute(query, (cluster, ExecutionState.QUEUED.value)).fetchone()
    return int(count)


def has_room_for(db: sqlite3.Connection, job: JobRow) -> bool:
    """Whether a cluster has idle nodes for a job that waits, and no other one waits for them."""
    query = "SELECT count(*) FROM node WHERE cluster = ? AND state = ?"
    (idle,) = db.execute(query, (job.cluster, NodeState.IDLE.value)).fetchone()
    others = "SELECT 1 FROM job WHERE cluster = ? AND state = ? AND is_assigned = 0 AND guid != ? LIMIT 1"
    values = (job.cluster, ExecutionState.QUEUED.value, job.guid)
    return job.node_count <= int(idle) and db.execute(others, values).fetchone() is None


def assign(db: sqlite3.Connection, job: JobRow, *, spawner: str) -> JobRow:
    """Notes that a job has its nodes, and who starts its supervisor; gives the row as it is now."""
    assigned = job._replace(is_assigned=True, changed=time.time(), spawner=spawner)
    values = (assigned.changed, spawner, job.key)
    db.execute("UPDATE job SET is_assigned = 1, changed = ?, spawner = ? WHERE key = ?", values)
    return assigned
