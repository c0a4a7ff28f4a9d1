"""The status of runs, the nodes of clusters and the queue before a job, as readers are told them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local.reconciler import end_of, is_watched
from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.backends.service.runner import RunStatus, waiting_reason
from batchai_magics.backends.service.stored_descriptions import moment
from batchai_magics.launch.outcome import Outcome
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.states import ExecutionState, NodeState

if TYPE_CHECKING:
    from batchai_magics.models.resources import Node


LOOPBACK = "127.0.0.1"  # the address of all nodes
NO_USAGE = job_table.NodeUsage()
_DELETED = RunStatus(ExecutionState.FAILED, 0.0, result=Outcome(None))


def run_statuses(
    db: sqlite3.Connection, layout: Layout, guids: Sequence[str]
) -> tuple[list[RunStatus], bool]:
    """The status of each of these runs, and whether any has lost its supervisor.

    Such a run has the end that reconciliation will record. A deleted one is over.
    """
    jobs = {job.guid: job for job in job_table.find_all(db, guids)}
    held: dict[str, tuple[str, ...]] = {}  # the nodes of each run that has some
    if assigned := [job.guid for job in jobs.values() if job.is_assigned]:
        query = (
            "SELECT held.job, held.node FROM node_run AS held JOIN node ON id = held.node"
            " WHERE held.job IN (SELECT value FROM json_each(?)) ORDER BY ordinal"
        )
        for run, node in db.execute(query, (json.dumps(assigned),)):
            held[run] = (*held.get(run, ()), node)
    waiting = _wait_reasons(db, list(jobs.values()))
    statuses = {guid: _status(job, held.get(guid, ()), waiting.get(guid, "")) for guid, job in jobs.items()}
    lost = [guid for guid, job in jobs.items() if job.is_open and job.needs_process and not is_watched(job)]
    for guid in lost:
        job = job_table.find_open(db, guid)
        if job and not is_watched(job):
            statuses[guid] = _without_supervisor(layout, job, statuses[guid])
        else:  # it has ended or changed hands since its row was read
            ((statuses[guid],), _) = run_statuses(db, layout, [guid])
    return [statuses.get(guid, _DELETED) for guid in guids], bool(lost)


def _without_supervisor(layout: Layout, job: JobRow, status: RunStatus) -> RunStatus:
    end = end_of(layout, job)
    if end.is_requeued:
        return replace(status, state=ExecutionState.QUEUED, nodes=())
    recorded = end._replace(errors=(*end.errors, *end.warnings), warnings=())  # as the store has them
    of_end = RunStatus.of_end(end, status.started or end.ended, status.attempts)
    return replace(of_end, result=recorded)


def _wait_reasons(db: sqlite3.Connection, jobs: Sequence[JobRow]) -> Mapping[str, str]:
    """Why runs are queued that start after others, or whose users run as many jobs as they may, by guid."""
    limited = [job for job in jobs if job.max_running and job.state is ExecutionState.QUEUED]
    usage = job_table.usage_by_owner(db) if limited else {}
    reasons = {
        job.guid: f"{job.max_running} of its user's jobs are running, as many as may run at a time"
        for job in limited
        if not job.is_assigned and usage.get(job.owner, NO_USAGE).job_count >= job.max_running
    }
    return reasons | {job.guid: waiting_reason(job.after) for job in jobs if job.after}


def _status(job: JobRow, nodes: tuple[str, ...], waiting: str) -> RunStatus:
    """The status of a run, from its row."""
    # A single attempt says no more than the job itself.
    has_history = len(job.attempts) > 1 or any(each.ended is not None for each in job.attempts)
    outcome = job.outcome
    return RunStatus(
        state=job.state,
        changed=job.changed,
        started=job.started,
        nodes=nodes,
        waiting=waiting,
        attempts=job.attempts if has_history else (),
        result=outcome,
        warnings=() if outcome else job.errors,
    )


def nodes_of(db: sqlite3.Connection, id: ResourceId) -> list[Node]:
    """The nodes of a cluster or job, each with the job that it runs, or one of them."""
    from batchai_magics.models.resources import Node

    column = "node.cluster" if id.kind is Kind.CLUSTER else "held.job"
    query = (
        "SELECT node.*, resource.id AS job_id FROM node LEFT JOIN node_run AS held ON held.node = node.id"
        " LEFT JOIN resource ON resource.guid = held.job"
        f" WHERE {column} = (SELECT guid FROM resource WHERE key = ?) GROUP BY node.id ORDER BY ordinal"
    )
    return [
        Node(
            row["id"],
            NodeState(row["state"]),
            ResourceId.parse(row["job_id"]) if row["job_id"] else None,
            LOOPBACK,
            since=moment(row["since"]),
        )
        for row in db.execute(query, (id.key,))
    ]


def jobs_ahead_of(db: sqlite3.Connection, id: ResourceId) -> list[ResourceId]:
    """The queued jobs that are scheduled before one, in order."""
    row = db.execute("SELECT cluster FROM job WHERE key = ?", (id.key,)).fetchone()
    queue = job_table.queue_of(db, row["cluster"]) if row else []
    before = queue[: queue.index(id.key)] if id.key in queue else []
    query = "SELECT key, id FROM resource WHERE key IN (SELECT value FROM json_each(?))"
    ids = dict(db.execute(query, (json.dumps(before),)).fetchall())
    return [ResourceId.parse(ids[key]) for key in before if key in ids]
