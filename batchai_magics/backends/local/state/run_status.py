"""The status of runs, the nodes of clusters and the queue before a job, as the tables have them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.local.state.job_table import has_history, run_attempts
from batchai_magics.backends.local.state.node_table import NodeRow
from batchai_magics.backends.local.state.table_rows import columns, query_in_batches
from batchai_magics.backends.service.runner import RunStatus, waiting_reason
from batchai_magics.backends.service.stored_descriptions import moment
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import ProcessExit
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.states import ExecutionState

if TYPE_CHECKING:
    from batchai_magics.models.resources import Node


LOOPBACK = "127.0.0.1"  # the address of all nodes
NO_USAGE = job_table.NodeUsage()
_DELETED = RunStatus(ExecutionState.FAILED, 0.0, result=Outcome(None))
_COLUMNS = (
    "guid, owner, is_assigned, max_running, nullif(after, '[]') AS after,"
    " state, changed, started, ended, exit_code, errors, ranks, attempts"
)


def run_statuses(db: sqlite3.Connection, guids: Sequence[str]) -> list[RunStatus]:
    """The status of each of these runs; a deleted one is over."""
    rows = {
        row["guid"]: row for row in query_in_batches(db, f"SELECT {_COLUMNS} FROM job WHERE guid IN", guids)
    }
    held: dict[str, tuple[str, ...]] = {}  # the nodes of each run that has some
    if any(row["is_assigned"] for row in rows.values()):
        query = "SELECT held.job, held.node FROM node_run AS held JOIN node ON id = held.node"
        for run, node in db.execute(f"{query} ORDER BY ordinal"):
            held[run] = (*held.get(run, ()), node)
    waiting = _wait_reasons(db, list(rows.values()))
    return [
        _status(rows[guid], held.get(guid, ()), waiting.get(guid, "")) if guid in rows else _DELETED
        for guid in guids
    ]


def _wait_reasons(db: sqlite3.Connection, rows: Sequence[sqlite3.Row]) -> Mapping[str, str]:
    """Why runs are queued that start after others, or whose users run as many jobs as they may, by guid."""
    limited = [row for row in rows if row["max_running"] and row["state"] == ExecutionState.QUEUED.value]
    usage = job_table.usage_by_owner(db) if limited else {}
    reasons = {
        row["guid"]: f"{row['max_running']} of its user's jobs are running, as many as may run at a time"
        for row in limited
        if not row["is_assigned"] and usage.get(row["owner"], NO_USAGE).job_count >= row["max_running"]
    }
    chained = {row["guid"]: job_table.awaited(row["after"]) for row in rows if row["after"]}
    return reasons | {
        guid: waiting_reason((each.name, each.must_succeed) for each in after)
        for guid, after in chained.items()
    }


def _status(row: sqlite3.Row, nodes: tuple[str, ...], waiting: str) -> RunStatus:
    """The status of a run, from its row."""
    errors, attempts = _parsed(row["errors"]), _parsed(row["attempts"])
    result = None
    if row["ended"] is not None:
        ranks = tuple(ProcessExit(**rank) for rank in _parsed(row["ranks"]))
        result = Outcome(row["exit_code"], errors, ranks, ended=row["ended"])
    return RunStatus(
        state=ExecutionState(row["state"]),
        changed=float(row["changed"]),
        started=row["started"],
        nodes=nodes,
        waiting=waiting,
        attempts=run_attempts(attempts) if has_history(attempts) else (),
        result=result,
        warnings=() if result else errors,
    )


def _parsed(text: str) -> tuple[Any, ...]:
    return () if text == "[]" else tuple(json.loads(text))


def nodes_of(db: sqlite3.Connection, id: ResourceId) -> list[Node]:
    """The nodes of a cluster or job, each with the job that it runs, or one of them."""
    from batchai_magics.models.resources import Node

    column = "node.cluster" if id.kind is Kind.CLUSTER else "job.key"
    query = (
        "SELECT node.*, resource.id AS job_id FROM node LEFT JOIN node_run AS held ON held.node = node.id"
        " LEFT JOIN job ON job.guid = held.job LEFT JOIN resource ON resource.key = job.key"
        f" WHERE {column} = ? GROUP BY node.id ORDER BY ordinal"
    )
    nodes = []
    for found in db.execute(query, (id.key,)).fetchall():
        values = columns(found)
        job, row = values.pop("job_id"), NodeRow.of(values)
        running = ResourceId.parse(job) if job else None
        nodes.append(Node(row.id, row.state, running, LOOPBACK, since=moment(row.since)))
    return nodes


def jobs_ahead_of(db: sqlite3.Connection, id: ResourceId) -> list[ResourceId]:
    """The queued jobs that are scheduled before one, in order."""
    row = db.execute("SELECT cluster FROM job WHERE key = ?", (id.key,)).fetchone()
    queue = job_table.queue_of(db, row["cluster"]) if row else []
    before = queue[: queue.index(id.key)] if id.key in queue else []
    rows = query_in_batches(db, "SELECT key, id FROM resource WHERE key IN", before)
    ids = {row["key"]: row["id"] for row in rows}
    return [ResourceId.parse(ids[key]) for key in before if key in ids]
