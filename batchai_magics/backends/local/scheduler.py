"""Gang scheduling: clusters grow and shrink with their queues, and queued jobs get idle nodes.

An auto-scale cluster grows at once for queued jobs, and shrinks when nodes have been idle for a while. Jobs
are ordered by priority; within one, the user whose jobs hold the fewest nodes is next, then the oldest job.
A job that does not fit blocks those behind it, so that large jobs do not starve. Jobs that ask for some GPUs
of a node share it with others of that kind.

There is no daemon: each process that changes the state, and each supervisor at its end, takes a step.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from batchai_magics.backends.local import process
from batchai_magics.backends.local.state import job_table, node_table
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.launch.outcome import Outcome
from batchai_magics.models.states import DeallocationOption, NodeState

if TYPE_CHECKING:
    from batchai_magics.backends.service.runner import ClusterRef


def assign_all(store: Store) -> list[JobRow]:
    """Assigns the idle nodes of all clusters to their next jobs, for this process to start.

    If a loss of power undoes it, the jobs are in the queue as before: their supervisors wait for the disk
    before anything of them runs.
    """
    with store.read() as db:
        if not job_table.waiting_clusters(db):
            return []
    assigned: list[JobRow] = []
    with store.write(waits_for_disk=False) as db:
        for cluster in job_table.waiting_clusters(db):
            while (job := job_table.next_job(db, cluster)) and _assign(db, cluster, job):
                assigned.append(job_table.assign(db, job, spawner=process.own_identity()))
    return assigned


def _assign(db: Database, cluster: str, job: JobRow) -> bool:
    """Assigns nodes to a job, or some GPUs of nodes; False, without change, if there are too few."""
    if not job.gpu_count:
        return node_table.assign(db, cluster, job)
    from batchai_magics.backends.local import machine_devices  # few jobs ask for GPUs

    devices, chosen = machine_devices.machine(), dict[str, list[str]]()
    for node in node_table.shared_nodes(db, cluster):
        used = node.gpus.split(",")
        free = [gpu for gpu in devices.gpu_share(node.position, node.mates) if gpu not in used]
        if len(free) >= job.gpu_count and len(chosen) < job.node_count:
            chosen[node.id] = free[: job.gpu_count]
    if len(chosen) < job.node_count:
        return False
    node_table.assign_gpus(db, job.guid, chosen)
    return True


def hand_over_nodes(db: Database, ended: JobRow) -> JobRow | None:
    """Assigns idle nodes to the cluster's next job if this process, which ran the ended one, can run it.

    That needs the same interpreter, and a job without secrets: those are held by a process of their own.
    """
    job = job_table.next_job(db, ended.cluster)
    if job is None or job.needs_secrets or job.python != ended.python:
        return None
    is_given = _assign(db, ended.cluster, job)
    return job_table.assign(db, job, spawner=process.own_identity()) if is_given else None


def record_end(db: Database, guid: str, outcome: Outcome) -> None:
    """Records how and when a run ended, or that it is queued again, and releases its nodes."""
    if outcome.is_requeued:
        job_table.requeue(db, guid, outcome.reason)
    else:
        job_table.end(db, guid, outcome)
        job_table.release_dependents(db, guid, is_success=outcome.is_success)
    node_table.release(db, guid)


def has_pending_work(store: Store) -> bool:
    """Whether nodes are being prepared, clusters auto-scale, or jobs could get nodes."""
    with store.read() as db:
        return bool(
            node_table.preparing(db) or node_table.auto_scaled_clusters(db) or job_table.waiting_clusters(db)
        )


def resize(db: Database, cluster: ClusterRef, option: DeallocationOption) -> list[str]:
    """Gives a new or resized cluster its nodes; returns the guids of the jobs that have to stop."""
    row, scale = node_table.find_cluster(db, cluster.guid), cluster.scale
    if row is None:  # deleted meanwhile
        return []
    if not scale.is_auto:
        node_table.set_bounds(db, row.guid, None, None)
        return node_table.resize(db, row.guid, scale.maximum, option)
    node_table.set_bounds(db, row.guid, scale.minimum, scale.maximum)
    present = row.target if row.next_ordinal else scale.initial
    target = max(scale.minimum, min(scale.maximum, present))
    return node_table.resize(db, row.guid, target, DeallocationOption.REQUEUE)


def adjust(store: Store) -> None:
    """Sets the target of every auto-scale cluster from its queue."""
    with store.read() as db:
        clusters = node_table.auto_scaled_clusters(db)
        changed = [
            row for row in clusters if _target_size(db, row) != len(node_table.not_leaving(db, row.guid))
        ]
    for row in changed:
        with store.write() as db:
            for now in node_table.auto_scaled_clusters(db, row.guid):  # unless gone or of fixed size now
                target = _target_size(db, now)
                node_table.resize(db, row.guid, target, DeallocationOption.WAIT_FOR_JOB_COMPLETION)


def _target_size(db: Database, cluster: node_table.ClusterRow) -> int:
    present = node_table.not_leaving(db, cluster.guid)
    idle_before = time.time() - cluster.idle_s
    busy = sum(node.state is NodeState.RUNNING for node in present)
    stale = sum(node.state is NodeState.IDLE and node.since < idle_before for node in present)
    fresh = len(present) - busy - stale  # idle since a short time, or not ready
    queued = job_table.nodes_waited_for(db, cluster.guid)
    target = busy + max(queued, fresh + (stale if queued else 0))
    return max(cluster.minimum or 0, target if cluster.maximum is None else min(cluster.maximum, target))
