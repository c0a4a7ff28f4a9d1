"""Deletes resources with everything in them; jobs are ended first."""

from __future__ import annotations

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
    jobs = [record for record in inner if record.resource_id.kind is Kind.JOB]
    for job in jobs:
        context.runner.stop(run_of(job))
    _wait_for_end(context, jobs)
    for record in inner:
        _delete_record(context, record)


def _delete_record(context: Context, record: Record) -> None:
    kind = record.resource_id.kind
    if kind is Kind.CLUSTER:
        text = f"The cluster {record.resource_id.name} was deleted"
        for _, run, _ in context.open_runs(record.guid):
            context.runner.cluster_deleted(run, text)
        context.runner.remove_cluster(record.guid)
    context.repository.delete(record.resource_id)
    if kind is Kind.JOB:
        context.repository.remove_open_job(record)
        context.folders.remove_run(record.guid)
    elif kind is Kind.CLUSTER and not context.open_runs(record.guid):
        context.folders.remove_cluster(record.guid)


def _wait_for_end(context: Context, jobs: Sequence[Record]) -> None:
    """Waits until the jobs have ended, for a limited time."""
    deadline = time.monotonic() + END_TIMEOUT_S
    while still := [job for job in jobs if context.status(job).is_open]:
        if time.monotonic() > deadline:
            raise api_errors.does_not_end(still[0].resource_id)
        time.sleep(_POLL_S)
