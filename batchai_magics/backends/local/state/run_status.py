"""The status of runs in the `job` table, parsed when it is read: lists have thousands."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from batchai_magics.backends.local.state.job_table import Attempts, has_history
from batchai_magics.backends.local.state.table_rows import query_in_batches
from batchai_magics.backends.service.runner import Attempt, RunResult, RunStatus
from batchai_magics.launch.plan import ProcessExit
from batchai_magics.models.states import ExecutionState

LOOPBACK = "127.0.0.1"  # the address of all nodes
_DELETED = RunStatus(ExecutionState.FAILED, 0.0, result=RunResult(0.0, None))
_COLUMNS = "guid, state, changed, started, ended, exit_code, errors, ranks, attempts, is_assigned"


def run_statuses(db: sqlite3.Connection, guids: Sequence[str]) -> list[RunStatus]:
    """The status of each of these runs; a deleted one is over."""
    rows = {
        row["guid"]: row for row in query_in_batches(db, f"SELECT {_COLUMNS} FROM job WHERE guid IN", guids)
    }
    held = _nodes(db) if any(row["is_assigned"] for row in rows.values()) else {}
    return [StoredStatus(rows[guid], held.get(guid, ())) if guid in rows else _DELETED for guid in guids]


class StoredStatus(RunStatus):
    """The status of a run, read from its row on access."""

    def __init__(self, row: sqlite3.Row, nodes: tuple[str, ...]) -> None:
        vars(self).update(row=row, nodes=nodes)

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
    for run, node in db.execute("SELECT job, id FROM node WHERE job IS NOT NULL ORDER BY ordinal"):
        held[run] = (*held.get(run, ()), node)
    return held
