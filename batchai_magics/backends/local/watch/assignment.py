"""Idle nodes are given to queued jobs, within an open transaction.

Priority comes first, then the order of making; a job that does not fit blocks the ones behind it, so that
large jobs are not starved.
"""

from __future__ import annotations

from batchai_magics.backends.local.state import nodes, queue
from batchai_magics.backends.local.state.jobs import JobRow
from batchai_magics.backends.local.state.store import Database
from batchai_magics.backends.local.watch import process


def assign(db: Database, cluster: str) -> list[JobRow]:
    """Gives a cluster's idle nodes to the jobs that are next; this process is to start them."""
    assigned: list[JobRow] = []
    while (job := queue.next_in_queue(db, cluster)) and nodes.give(db, cluster, job):
        assigned.append(queue.assign(db, job, spawner=process.own_identity()))
    return assigned


def hand_over(db: Database, ended: JobRow) -> JobRow | None:
    """Gives idle nodes to the next job of the cluster, if the process that ran the ended one can run it.

    That needs the same interpreter, and no secrets: those are in a process of their own.
    """
    job = queue.next_in_queue(db, ended.cluster)
    if job is None or job.needs_secrets or job.python != ended.python:
        return None
    is_given = nodes.give(db, ended.cluster, job)
    return queue.assign(db, job, spawner=process.own_identity()) if is_given else None
