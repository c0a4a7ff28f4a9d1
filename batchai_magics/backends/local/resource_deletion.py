"""Deletes resources with everything inside them."""

from __future__ import annotations

from collections.abc import Sequence

from batchai_magics.backends.local.folders import unmanaged_mounts
from batchai_magics.backends.local.state import cluster_table, job_table, node_table, resource_table
from batchai_magics.backends.local.state.store import Database
from batchai_magics.backends.local.watch import job_stopping
from batchai_magics.backends.local.watch.outcome_writer import write_outcome
from batchai_magics.backends.local.watch.reconciler import Reconciler
from batchai_magics.backends.node.outcome import failed_with
from batchai_magics.models.resource_ids import Kind, ResourceId


def delete(reconciler: Reconciler, id: ResourceId) -> None:
    """Deletes a resource and all inside it. Jobs are ended first; what they wrote stays on its share."""
    store, layout = reconciler.store, reconciler.layout
    with store.read() as db:
        resource_table.get(db, id)
        inner = resource_table.subtree(db, id)
    ending = [item for item in inner if item.kind is Kind.JOB]
    job_stopping.wake(store, job_stopping.request_stop(store, [job.key for job in ending]))
    job_stopping.wait_for_end(store, ending, settle=reconciler.reconcile_if_room)
    job_guids, cluster_guids = store.insist(lambda db: forget(db, inner))
    unmanaged_mounts.remove_jobs(layout, job_guids)
    for guid in cluster_guids:
        unmanaged_mounts.remove_cluster(layout, guid)
    reconciler.reconcile_if_room(is_due=True)


def forget(db: Database, ids: Sequence[ResourceId]) -> tuple[list[str], list[str]]:
    """Deletes resources from the store; returns the guids of jobs and clusters whose folders can go.

    Jobs of a deleted cluster stay, as failed.
    """
    job_guids, cluster_guids = [], []
    for id in ids:
        if id.kind is Kind.JOB:
            job_guids += job_table.delete(db, id.key)
        elif id.kind is Kind.CLUSTER:
            _end_jobs_on(db, id)
            cluster_guids += cluster_table.delete(db, id.key)
            node_table.delete_of(db, id.key)
        resource_table.delete(db, id.key)
    return job_guids, cluster_guids


def _end_jobs_on(db: Database, cluster: ResourceId) -> None:
    text = f"The cluster {cluster.name} was deleted"
    for job in job_table.open_on(db, cluster.key):
        if job.is_assigned:
            job_table.ask_to_stop(db, job.key, text)
            job_table.set_terminating(db, job.key)
        else:
            write_outcome(db, job.key, job.guid, failed_with("ClusterNotFound", text))
