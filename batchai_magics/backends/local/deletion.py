"""Deleting resources, with all that is inside them."""

from __future__ import annotations

from collections.abc import Sequence

from batchai_magics.backends.local.folders import unmanaged
from batchai_magics.backends.local.state import clusters, jobs, nodes, resources
from batchai_magics.backends.local.state.store import Database
from batchai_magics.backends.local.watch import stopping
from batchai_magics.backends.local.watch.upkeep import Upkeep
from batchai_magics.backends.local.watch.verdict import record
from batchai_magics.backends.node.outcome import failed_with
from batchai_magics.models.ids import Kind, ResourceId


def delete(upkeep: Upkeep, id: ResourceId) -> None:
    """Deletes a resource and all inside it. Jobs are ended first; what they wrote stays on its share."""
    store, layout = upkeep.store, upkeep.layout
    with store.read() as db:
        resources.get(db, id)
        inner = resources.inside(db, id)
    ending = [item for item in inner if item.kind is Kind.JOB]
    stopping.wake(store, stopping.ask(store, [job.key for job in ending]))
    stopping.wait_for_end(store, ending, settle=upkeep.settle_if_room)
    job_guids, cluster_guids = store.insist(lambda db: forget(db, inner))
    unmanaged.remove_jobs(layout, job_guids)
    for guid in cluster_guids:
        unmanaged.remove_cluster(layout, guid)
    upkeep.settle_if_room(is_due=True)


def forget(db: Database, ids: Sequence[ResourceId]) -> tuple[list[str], list[str]]:
    """Deletes resources from the store; gives the guids of jobs and of clusters whose folders can go.

    Jobs outlive their cluster.
    """
    job_guids, cluster_guids = [], []
    for id in ids:
        if id.kind is Kind.JOB:
            job_guids += jobs.delete(db, id.key)
        elif id.kind is Kind.CLUSTER:
            _end_jobs_on(db, id)
            cluster_guids += clusters.delete(db, id.key)
            nodes.delete_of(db, id.key)
        resources.delete(db, id.key)
    return job_guids, cluster_guids


def _end_jobs_on(db: Database, cluster: ResourceId) -> None:
    text = f"The cluster {cluster.name} was deleted"
    for job in jobs.open_on(db, cluster.key):
        if job.is_assigned:
            jobs.ask_to_stop(db, job.key, text)
            jobs.note_terminating(db, job.key)
        else:
            record(db, job.key, job.guid, failed_with("ClusterNotFound", text))
