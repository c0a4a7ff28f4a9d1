"""Forgetting resources, with all that is inside them."""

from __future__ import annotations

from collections.abc import Sequence

from batchai_magics.backends.local.state import clusters, jobs, nodes, resources
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.local.watch.verdict import record
from batchai_magics.backends.node.outcome import failed_with
from batchai_magics.models.ids import Kind, ResourceId


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
