"""Stopping jobs: asking, waking their supervisors, and waiting the moment until they are gone."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence

from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.state.verdict import OPEN, record
from batchai_magics.backends.local.watch import process
from batchai_magics.backends.node.outcome import stopped
from batchai_magics.errors import ConflictError
from batchai_magics.models.ids import ResourceId

PATIENCE_S = 10.0  # a supervisor ends its processes within two seconds


def ask(store: Store, key: str) -> list[str]:
    """Notes that a job has to stop; ends it at once when it has no nodes yet. Gives the guids to wake."""
    with store.write() as db:
        row = db.execute(f"SELECT * FROM job WHERE key = ? AND state IN {OPEN}", (key,)).fetchone()
        if row is None:
            return []
        db.execute("UPDATE job SET stop = 'terminate' WHERE key = ?", (key,))
        if row["is_assigned"]:
            db.execute(
                "UPDATE job SET state = 'terminating', changed = ? WHERE key = ? AND state = 'running'",
                (time.time(), key),
            )
        else:
            record(db, key, row["guid"], stopped("terminate"))
        return [row["guid"]]


def wake(store: Store, guids: Iterable[str]) -> None:
    """Has the supervisors of these jobs look at the store now."""
    with store.read() as db:
        names = [
            db.execute("SELECT supervisor FROM job WHERE guid = ?", (guid,)).fetchone() for guid in guids
        ]
    for row in names:
        if row and row["supervisor"] and process.is_alive(row["supervisor"]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid_of(row["supervisor"]), signal.SIGTERM)


def resources_inside(db: sqlite3.Connection, id: ResourceId) -> list[ResourceId]:
    """The resource itself and everything below it, innermost first; a cluster's jobs are not inside it."""
    keys = db.execute(
        "SELECT id FROM resource WHERE key = ? OR substr(key, 1, ?) = ? ORDER BY length(key) DESC",
        (id.key, len(id.key) + 1, id.key + "/"),
    ).fetchall()
    return [ResourceId.parse(key) for (key,) in keys]


def wait_for_end(store: Store, jobs: Sequence[ResourceId], *, settle: Callable[[], None]) -> None:
    """Waits until the jobs have ended: a few seconds at most, since they were told to."""
    deadline = time.monotonic() + PATIENCE_S
    for job in jobs:
        while _is_open(store, job.key):
            if time.monotonic() > deadline:
                raise ConflictError(
                    f"The job {job.name} does not end", code="JobNotTerminated", hint="Try again."
                )
            time.sleep(0.02)
            settle()


def _is_open(store: Store, key: str) -> bool:
    with store.read() as db:
        return (
            db.execute(f"SELECT 1 FROM job WHERE key = ? AND state IN {OPEN}", (key,)).fetchone() is not None
        )
