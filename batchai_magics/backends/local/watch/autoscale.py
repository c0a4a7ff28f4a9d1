"""Auto-scale: a cluster grows for its queue at once, and shrinks when nodes have been idle for a while."""

from __future__ import annotations

import sqlite3
import time

from batchai_magics.backends.local.state import nodes
from batchai_magics.backends.local.state.store import Store
from batchai_magics.models.states import DeallocationOption

DEFAULT_IDLE_S = 300.0


def adjust(store: Store) -> None:
    """Gives every auto-scale cluster the number of nodes that its queue asks for."""
    with store.read() as db:
        keys = [key for (key,) in db.execute("SELECT key FROM cluster WHERE maximum IS NOT NULL")]
        wanted = {key: _wanted(db, key) for key in keys}
        changed = {key: count for key, count in wanted.items() if count != _present(db, key)}
    for key in changed:
        with store.write() as db:
            nodes.resize(db, key, _wanted(db, key), DeallocationOption.WAIT_FOR_JOB_COMPLETION)


def _wanted(db: sqlite3.Connection, key: str) -> int:
    cluster = db.execute("SELECT * FROM cluster WHERE key = ?", (key,)).fetchone()
    busy, fresh, stale = _count(db, key, time.time() - cluster["idle_s"])
    queued = db.execute(
        "SELECT coalesce(sum(node_count), 0) FROM job"
        " WHERE cluster = ? AND state = 'queued' AND is_assigned = 0",
        (key,),
    ).fetchone()[0]
    wanted: int = busy + max(queued, fresh + (stale if queued else 0))
    return max(int(cluster["minimum"]), min(int(cluster["maximum"]), wanted))


def _count(db: sqlite3.Connection, key: str, idle_before: float) -> tuple[int, int, int]:
    """Nodes with a job; nodes without one that came to that lately; nodes that have been idle too long."""
    rows = db.execute(
        "SELECT state, since FROM node WHERE cluster = ? AND state != 'leaving'", (key,)
    ).fetchall()
    busy = sum(row["state"] == "running" for row in rows)
    stale = sum(row["state"] == "idle" and row["since"] < idle_before for row in rows)
    return busy, len(rows) - busy - stale, stale


def _present(db: sqlite3.Connection, key: str) -> int:
    query = "SELECT count(*) FROM node WHERE cluster = ? AND state != 'leaving'"
    count: int = db.execute(query, (key,)).fetchone()[0]
    return count
