"""The status of runs, the nodes of clusters and the queue before a job, as the tables have them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.local.state.job_table import Attempts, has_history
from batchai_magics.backends.local.state.node_table import NodeRow
from batchai_magics.backends.local.state.resource_table import record_of
from batchai_magics.backends.local.state.table_rows import columns, query_in_batches, to_datetime
from batchai_magics.backends.service.repository import Record
from batchai_magics.backends.service.runner import Attempt, RunResult, RunStatus
from batchai_magics.launch.plan import ProcessExit
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.states import ExecutionState

if TYPE_CHECKING:
    from batchai_magics.models.resources import Node


LOOPBACK = "127.0.0.1"  # the address of all nodes
NO_USAGE = job_table.Usage()
_DELETED = RunStatus(ExecutionState.FAILED, 0.0, result=RunResult(0.0, None))
_VALUES = "state, changed, started, ended, exit_code, errors, ranks, attempts"
_LIMITS = "is_assigned, max_running, job.owner AS job_owner"
_COLUMNS = f"guid, {_VALUES}, {_LIMITS}"
_JOBS = (
    f"SELECT id, resource.guid, spec, fingerprint, created, resource.owner, more, {_VALUES}, {_LIMITS}"
    " FROM resource LEFT JOIN job ON job.guid = resource.guid WHERE resource.key IN"
)


def run_statuses(db: sqlite3.Connection, guids: Sequence[str]) -> list[RunStatus]:
    """The status of each of these runs; a deleted one is over."""
    rows = {
        row["guid"]: row for row in query_in_batches(db, f"SELECT {_COLUMNS} FROM job WHERE guid IN", guids)
    }
    held = _nodes(db) if any(row["is_assigned"] for row in rows.values()) else {}
    waiting = _waiting(db, list(rows.values()))
    return [
        StoredStatus(rows[guid], held.get(guid, ()), waiting.get(guid, "")) if guid in rows else _DELETED
        for guid in guids
    ]


def jobs_with_status(db: sqlite3.Connection, keys: Sequence[str]) -> Iterator[tuple[Record, RunStatus]]:
    """The records of those jobs that exist and the status of their runs, without nodes, in any order.

    Each batch of `MAX_KEYS` is one SELECT, hence read at one moment without a transaction.
    """
    rows = list(query_in_batches(db, _JOBS, keys))
    waiting = _waiting(db, rows)
    for row in rows:
        status = StoredStatus(row, (), waiting.get(row["guid"], ""))
        yield record_of(row), _DELETED if row["state"] is None else status


def _waiting(db: sqlite3.Connection, rows: Sequence[sqlite3.Row]) -> Mapping[str, str]:
    """Why runs of users who run as many jobs as they may are queued, by guid."""
    limited = [row for row in rows if row["max_running"] and row["state"] == ExecutionState.QUEUED.value]
    usage = job_table.usage_by_owner(db) if limited else {}
    return {
        row["guid"]: f"{row['max_running']} of its user's jobs are running, as many as may run at a time"
        for row in limited
        if not row["is_assigned"] and usage.get(row["job_owner"], NO_USAGE).job_count >= row["max_running"]
    }


class StoredStatus(RunStatus):
    """The status of a run, read from its row on access."""

    def __init__(self, row: sqlite3.Row, nodes: tuple[str, ...], waiting: str = "") -> None:
        vars(self).update(row=row, nodes=nodes, waiting=waiting)

    @property
    def state(self) -> ExecutionState:
        """The execution state."""
        return ExecutionState(self._row["state"])

    @property
    def changed(self) -> float:
        """When it came to that state."""
        return float(self._row["changed"])

    @property
    def started(self) -> float | None:
        """When its latest attempt began."""
        return self._row["started"]  # type: ignore[no-any-return]

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """All attempts, if it was ever requeued."""
        text = self._row["attempts"]
        stored: Attempts = () if text == "[]" else tuple(json.loads(text))
        return tuple(map(_attempt, stored)) if has_history(stored) else ()

    @property
    def warnings(self) -> tuple[Mapping[str, Any], ...]:
        """Warnings of a run that has not ended, as JSON of the error details."""
        row = self._row
        is_over = row["ended"] is not None or row["errors"] == "[]"
        return () if is_over else tuple(json.loads(row["errors"]))

    @property
    def result(self) -> RunResult | None:
        """How it ended."""
        return None if self._row["ended"] is None else StoredResult(self._row)

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return not self.state.is_final

    @property
    def _row(self) -> sqlite3.Row:
        return vars(self)["row"]  # type: ignore[no-any-return]


class StoredResult(RunResult):
    """How a run ended, read from its row on access."""

    def __init__(self, row: sqlite3.Row) -> None:
        vars(self).update(row=row, ended=row["ended"], exit_code=row["exit_code"])

    @property
    def errors(self) -> tuple[Mapping[str, Any], ...]:
        """JSON of the error details, and of warnings."""
        return tuple(json.loads(vars(self)["row"]["errors"]))

    @property
    def ranks(self) -> tuple[ProcessExit, ...]:
        """Every process, the first that failed first."""
        return tuple(ProcessExit(**rank) for rank in json.loads(vars(self)["row"]["ranks"]))


def _attempt(stored: Mapping[str, Any]) -> Attempt:
    nodes, reason = tuple(stored["nodes"]), stored.get("reason", "")
    return Attempt(nodes, stored["started"], stored.get("ended"), reason)


def _nodes(db: sqlite3.Connection) -> Mapping[str, tuple[str, ...]]:
    """The nodes of each run that has some."""
    held: dict[str, tuple[str, ...]] = {}
    query = "SELECT held.job, held.node FROM node_run AS held JOIN node ON id = held.node ORDER BY ordinal"
    for run, node in db.execute(query):
        held[run] = (*held.get(run, ()), node)
    return held


def nodes_of(db: sqlite3.Connection, id: ResourceId) -> list[Node]:
    """The nodes of a cluster or job, each with the job that it runs, or one of them."""
    column = "node.cluster" if id.kind is Kind.CLUSTER else "job.key"
    query = (
        "SELECT node.*, resource.id AS job_id FROM node LEFT JOIN node_run AS held ON held.node = node.id"
        " LEFT JOIN job ON job.guid = held.job LEFT JOIN resource ON resource.key = job.key"
        f" WHERE {column} = ? GROUP BY node.id ORDER BY ordinal"
    )
    return [_node(**columns(row)) for row in db.execute(query, (id.key,)).fetchall()]


def jobs_ahead_of(db: sqlite3.Connection, id: ResourceId) -> list[ResourceId]:
    """The queued jobs that are scheduled before one, in order."""
    row = db.execute("SELECT cluster FROM job WHERE key = ?", (id.key,)).fetchone()
    queue = job_table.queue_of(db, row["cluster"]) if row else []
    before = queue[: queue.index(id.key)] if id.key in queue else []
    rows = query_in_batches(db, "SELECT key, id FROM resource WHERE key IN", before)
    ids = {row["key"]: row["id"] for row in rows}
    return [ResourceId.parse(ids[key]) for key in before if key in ids]


def _node(*, job_id: str | None, **columns: Any) -> Node:
    from batchai_magics.models.resources import Node

    row, job = NodeRow.of(columns), ResourceId.parse(job_id) if job_id else None
    return Node(row.id, row.state, job, LOOPBACK, since=to_datetime(row.since))
