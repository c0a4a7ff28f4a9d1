"""Deleting resources, with all that is inside them."""

from __future__ import annotations

from collections.abc import Sequence

from batchai_magics.backends.local.folders import unmanaged
from batchai_magics.backends.local.state import clusters, jobs, nodes, resources
from batchai_magics.backends.local.state.store import Database, Store
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
    for job in ending:
        stopping.wake(store, stopping.ask(store, job.key))
        upkeep.settle(is_due=True)
    stopping.wait_for_end(store, ending, settle=upkeep.settle)
    for guid in forget(store, inner):
        unmanaged.remove_job(layout, guid)
        unmanaged.remove_cluster(layout, guid)
    upkeep.settle(is_due=True)


def forget(store: Store, ids: Sequence[ResourceId]) -> list[str]:
    """Deletes resources from the store; gives the guids whose folders can go. Jobs outlive their cluster."""
    guids = []
    with store.write() as db:
        for id in ids:
            if id.kind is Kind.CLUSTER:
                _end_jobs_on(db, id)
            guids += jobs.delete(db, id.key) + clusters.delete(db, id.key)
            nodes.delete_of(db, id.key)
            resources.delete(db, id.key)
    return guids


def _end_jobs_on(db: Database, cluster: ResourceId) -> None:
    text = f"The cluster {cluster.name} was deleted"
    for job in jobs.open_on(db, cluster.key):
        if job.is_assigned:
            jobs.ask_to_stop(db, job.key, text)
        else:
            record(db, job.key, job.guid, failed_with("ClusterNotFound", text))
