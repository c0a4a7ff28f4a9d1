"""Deletes resources with everything in them; jobs are ended first."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

from batchai_magics.backends.service import api_errors
from batchai_magics.backends.service.context import Context, run_of
from batchai_magics.backends.service.repository import Record
from batchai_magics.models.resource_ids import Kind, ResourceId

END_TIMEOUT_S = 40.0  # an engine ends a run within half of this
_POLL_S = 0.05


def delete(context: Context, id: ResourceId) -> None:
    """Deletes a resource and everything in it; what jobs wrote to shares is kept."""
    inner = context.repository.subtree(id)
    jobs = [record for record in inner if record.kind is Kind.JOB]
    clusters = [record for record in inner if record.kind is Kind.CLUSTER]
    context.runner.stop(list(map(run_of, jobs)))
    _wait_for_end(context, jobs)
    context.folders.discard_backups([job.guid for job in jobs])
    with context.repository.transaction() if clusters else contextlib.nullcontext():
        for cluster in clusters:
            _end_cluster(context, cluster)
        context.repository.delete(id)
    for job in jobs:
        context.repository.remove_open_job(job)
    context.folders.remove_runs([job.guid for job in jobs])
    for cluster in clusters:
        if not context.open_runs(cluster.guid):
            context.folders.remove_cluster(cluster.guid)


def _end_cluster(context: Context, cluster: Record) -> None:
    text = f"The cluster {cluster.name} was deleted"
    for _, run, _ in context.open_runs(cluster.guid):
        context.runner.cluster_deleted(run, text)
    context.runner.remove_cluster(cluster.guid)


def _wait_for_end(context: Context, jobs: Sequence[Record]) -> None:
    """Waits until the jobs have ended, for a limited time."""
    deadline = time.monotonic() + END_TIMEOUT_S
    while jobs := context.still_open(jobs):
        if time.monotonic() > deadline:
            raise api_errors.does_not_end(jobs[0].resource_id)
        time.sleep(_POLL_S)
