"""Assigns idle nodes to queued jobs, within an open transaction.

Jobs are ordered by priority, then by creation. A job that does not fit blocks those behind it, so that
large jobs do not starve.
"""

from __future__ import annotations

from batchai_magics.backends.local.state import cluster_table, job_queue, node_table
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.local.watch import process


def assign_nodes(db: Database, cluster: str) -> list[JobRow]:
    """Assigns a cluster's idle nodes to the next jobs, for this process to start."""
    assigned: list[JobRow] = []
    while (job := job_queue.next_job(db, cluster)) and node_table.assign(db, cluster, job):
        assigned.append(job_queue.assign(db, job, spawner=process.own_identity()))
    return assigned


def hand_over_nodes(db: Database, ended: JobRow) -> JobRow | None:
    """Assigns idle nodes to the cluster's next job if this process, which ran the ended one, can run it.

    That needs the same interpreter, and a job without secrets: those are held by a process of their own.
    """
    job = job_queue.next_job(db, ended.cluster)
    if job is None or job.needs_secrets or job.python != ended.python:
        return None
    is_given = node_table.assign(db, ended.cluster, job)
    return job_queue.assign(db, job, spawner=process.own_identity()) if is_given else None


def has_pending_work(store: Store) -> bool:
    """Whether nodes are being prepared, clusters auto-scale, or jobs could get nodes."""
    with store.read() as db:
        return (
            node_table.is_any_preparing(db)
            or cluster_table.is_any_auto_scaled(db)
            or bool(job_queue.waiting_clusters(db))
        )
