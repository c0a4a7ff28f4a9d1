"""The status of runs, the nodes of clusters and the queue before a job, for readers of the store."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
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
    is_limited = any(job.max_running and job.state is ExecutionState.QUEUED for job in jobs.values())
    usage = job_table.usage_by_owner(db) if is_limited else {}
    statuses: dict[str, RunStatus] = {}
    is_any_lost = False
    for guid, job in jobs.items():
        statuses[guid] = _status(job, held.get(guid, ()), usage.get(job.owner, NO_USAGE).job_count)
        if job.is_open and job.needs_process and not is_watched(job):
            is_any_lost = True
            now = job_table.find_open(db, guid)
            if now and not is_watched(now):
                statuses[guid] = _without_supervisor(layout, now, statuses[guid])
            else:  # it has ended or changed hands since its row was read
                ((statuses[guid],), _) = run_statuses(db, layout, [guid])
    return [statuses.get(guid, _DELETED) for guid in guids], is_any_lost


def _without_supervisor(layout: Layout, job: JobRow, status: RunStatus) -> RunStatus:
    end = end_of(layout, job)
    if end.is_requeued:
        return replace(status, state=ExecutionState.QUEUED, nodes=())
    recorded = end._replace(errors=(*end.errors, *end.warnings), warnings=())  # as the store has them
    of_end = RunStatus.of_end(end, status.started or end.ended, status.attempts)
    return replace(of_end, result=recorded)


def _status(job: JobRow, nodes: tuple[str, ...], running_count: int) -> RunStatus:
    """The status of a run, from its row, and from how many jobs of its user run where that is limited."""
    waiting = ""
    if job.after:
        waiting = waiting_reason(job.after)
    elif job.state is ExecutionState.QUEUED and not job.is_assigned and 0 < job.max_running <= running_count:
        waiting = f"{job.max_running} of its user's jobs are running, as many as may run at a time"
    # A single attempt says no more than the job itself.
    has_history = len(job.attempts) > 1 or any(attempt.ended is not None for attempt in job.attempts)
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
