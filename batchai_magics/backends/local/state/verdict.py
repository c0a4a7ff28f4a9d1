"""A supervisor's word in the store: the job is mine, it has begun, it has ended so."""

from __future__ import annotations

import json
import os
import sqlite3
import time

from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import process
from batchai_magics.backends.node.outcome import Outcome
from batchai_magics.errors import StorageError

OPEN_STATES = ("queued", "running", "terminating")
OPEN = "('queued', 'running', 'terminating')"  # the same for SQL


class Verdicts:
    """What one supervisor reads and writes of its own job."""

    def __init__(self, store: Store, key: str, guid: str) -> None:
        self._store, self._key, self._guid = store, key, guid

    def claim(self) -> bool:
        """Makes this process the job's supervisor; False when the job has another or is gone."""
        me = process.own_identity()
        with self._store.write() as db:
            return self._update(db, "supervisor = ?", me, only_if=f"supervisor IN ('', '{me}')")

    def is_open(self) -> bool:
        """Whether the job is still to be run or running, by this supervisor."""
        row = self._row()
        return row is not None and row["state"] in OPEN_STATES

    def is_assigned(self) -> bool:
        """Whether the job has its nodes."""
        row = self._row()
        return row is not None and bool(row["is_assigned"])

    def begin(self) -> bool:
        """The job runs from now on; False when it was told to stop before."""
        now = time.time()
        with self._store.write() as db:
            return self._update(
                db, "state = 'running', changed = ?, started = ?", now, now, only_if="stop = ''"
            )

    def stop_reason(self, wakeup: int) -> str:
        """Why the job has to stop, or an empty string. Looks at signals first, at the store each time."""
        row = self._row()
        if row is None:
            return "the job was deleted"
        _drain(wakeup)
        return str(row["stop"])

    def finish(self, outcome: Outcome) -> None:
        """Writes the outcome and frees the nodes; a full disk does not stop it."""
        while True:
            try:
                with self._store.write() as db:
                    record(db, self._key, self._guid, outcome)
                return
            except StorageError:
                self._store.use_reserve()
                time.sleep(0.2)

    def _row(self) -> sqlite3.Row | None:
        with self._store.read() as db:
            row: sqlite3.Row | None = db.execute(
                "SELECT state, stop, is_assigned FROM job WHERE key = ? AND guid = ?", (self._key, self._guid)
            ).fetchone()
        return row

    def _update(self, db: sqlite3.Connection, change: str, *values: object, only_if: str) -> bool:
        statement = f"UPDATE job SET {change} WHERE key = ? AND guid = ? AND state IN {OPEN} AND {only_if}"
        return db.execute(statement, (*values, self._key, self._guid)).rowcount == 1


def record(db: sqlite3.Connection, key: str, guid: str, outcome: Outcome) -> None:
    """Writes how a job ended, in an open transaction, and gives its nodes back."""
    now = time.time()
    if outcome.is_requeued:
        db.execute(
            "UPDATE job SET state = 'queued', changed = ?, started = NULL, is_assigned = 0, spawner = '',"
            # A supervisor that knows the job's secrets waits with them for its next nodes.
            " supervisor = CASE WHEN needs_secrets THEN supervisor ELSE '' END, stop = ''"
            f" WHERE key = ? AND guid = ? AND state IN {OPEN}",
            (now, key, guid),
        )
    else:
        state = "succeeded" if outcome.is_success else "failed"
        db.execute(
            "UPDATE job SET state = ?, changed = ?, started = coalesce(started, ?), ended = ?, exit_code = ?,"
            f" errors = ?, ranks = ?, is_assigned = 0 WHERE key = ? AND guid = ? AND state IN {OPEN}",
            (
                state,
                now,
                now,
                now,
                outcome.exit_code,
                json.dumps(outcome.errors),
                json.dumps(outcome.ranks),
                key,
                guid,
            ),
        )
    db.execute("DELETE FROM node WHERE job = ? AND state = 'leaving'", (guid,))
    db.execute("UPDATE node SET state = 'idle', since = ?, job = NULL WHERE job = ?", (now, guid))


def _drain(wakeup: int) -> None:
    try:
        os.read(wakeup, 1024)
    except BlockingIOError:
        return
