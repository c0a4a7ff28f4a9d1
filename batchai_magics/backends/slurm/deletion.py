"""Deleting resources, with all that is inside them; jobs are ended first."""

from __future__ import annotations

import time
from collections.abc import Sequence

from batchai_magics.backends.node.outcome import failed_with
from batchai_magics.backends.service import private_files, refusals
from batchai_magics.backends.slurm.creation import Home
from batchai_magics.backends.slurm.preparing import setups
from batchai_magics.backends.slurm.records import Record
from batchai_magics.models.ids import Kind, ResourceId

PATIENCE_S = 40.0  # a job that was told to end is ended by Slurm after the half of it
_AGAIN_S = 0.05


def delete(home: Home, id: ResourceId) -> None:
    """Deletes a resource and all inside it. What jobs wrote stays; jobs outlive their cluster."""
    inner = home.records.inside(id)
    jobs = [record for record in inner if record.resource_id.kind is Kind.JOB]
    for job in jobs:
        home.runs.ask_to_stop(job)
    _wait_for_end(home, jobs)
    for record in inner:
        _forget(home, record)


def _forget(home: Home, record: Record) -> None:
    id = record.resource_id
    if id.kind is Kind.CLUSTER:
        _end_jobs_on(home, record)
        setups.secrets_file(home.layout, record.guid).unlink(missing_ok=True)
    home.records.delete(id)
    if id.kind is Kind.JOB:
        home.clusters.leave(record.more["cluster_guid"], record)
        home.runs.forget(record)
    elif id.kind is Kind.CLUSTER and not home.clusters.open_runs(record.guid):
        private_files.remove_folder(home.layout.cluster(record.guid))


def _end_jobs_on(home: Home, cluster: Record) -> None:
    text = f"The cluster {cluster.resource_id.name} was deleted"
    for run in home.clusters.open_runs(cluster.guid):
        is_waiting = run.standing.begun is None
        home.runs.ask_to_stop(run.job, text)
        if is_waiting and not home.runs.files(run.job.guid).begun(1):
            home.runs.conclude(run.job, failed_with("ClusterNotFound", text))


def _wait_for_end(home: Home, jobs: Sequence[Record]) -> None:
    """Waits until the jobs have ended: some seconds at most, since they were told to."""
    deadline = time.monotonic() + PATIENCE_S
    while still := [job for job in jobs if home.runs.settle(job).is_open]:
        if time.monotonic() > deadline:
            raise refusals.does_not_end(still[0].resource_id)
        time.sleep(_AGAIN_S)
