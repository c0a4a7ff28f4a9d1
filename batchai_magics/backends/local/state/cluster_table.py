"""The `cluster` table: target sizes and auto-scale bounds."""

from __future__ import annotations

import sqlite3
import time
from typing import NamedTuple

from batchai_magics.backends.local.state.table_rows import columns


class ClusterRow(NamedTuple):
    """One cluster."""

    key: str  # of its resource
    guid: str  # the name of its folder
    changed: float  # when its target was set
    target: int = 0  # desired number of nodes
    minimum: int | None = None  # of an auto-scale cluster
    maximum: int | None = None
    idle_s: float = 0.0  # how long a node of an auto-scale cluster may be idle
    next_ordinal: int = 0  # of the next node that is made


def insert_unless_there(db: sqlite3.Connection, guid: str, *, idle_s: float) -> None:
    """Inserts the cluster of a record, without nodes, unless it was inserted before."""
    db.execute(
        "INSERT OR IGNORE INTO cluster (key, guid, target, idle_s, changed)"
        " SELECT key, guid, 0, ?, ? FROM resource WHERE guid = ?",
        (idle_s, time.time(), guid),
    )


def find(db: sqlite3.Connection, guid: str) -> ClusterRow | None:
    """The cluster with that guid, or None."""
    row = db.execute(
        "SELECT cluster.* FROM cluster JOIN resource USING (key) WHERE resource.guid = ?", (guid,)
    )
    found = row.fetchone()
    return ClusterRow(**columns(found)) if found else None


def get(db: sqlite3.Connection, key: str) -> ClusterRow:
    """An existing cluster."""
    return ClusterRow(**columns(db.execute("SELECT * FROM cluster WHERE key = ?", (key,)).fetchone()))


def is_any_auto_scaled(db: sqlite3.Connection) -> bool:
    """Whether any cluster auto-scales."""
    return db.execute("SELECT 1 FROM cluster WHERE maximum IS NOT NULL LIMIT 1").fetchone() is not None


def auto_scaled(db: sqlite3.Connection, key: str = "") -> list[ClusterRow]:
    """The auto-scale clusters, or only the one with that key."""
    query = "SELECT * FROM cluster WHERE maximum IS NOT NULL AND ? IN ('', key)"
    return [ClusterRow(**columns(row)) for row in db.execute(query, (key,)).fetchall()]


def set_bounds(db: sqlite3.Connection, key: str, minimum: int | None, maximum: int | None) -> None:
    """Sets the auto-scale bounds of a cluster; None for a fixed size."""
    db.execute("UPDATE cluster SET minimum = ?, maximum = ? WHERE key = ?", (minimum, maximum, key))


def set_target(db: sqlite3.Connection, key: str, target: int) -> None:
    """Sets the target size of a cluster."""
    now = time.time()
    if get(db, key).target != target:  # what the service shows
        db.execute("UPDATE resource SET more = json_set(more, '$.changed', ?) WHERE key = ?", (now, key))
    db.execute("UPDATE cluster SET target = ?, changed = ? WHERE key = ?", (target, now, key))


def skip_ordinals(db: sqlite3.Connection, key: str, count: int) -> None:
    """Reserves ordinals for new nodes."""
    db.execute("UPDATE cluster SET next_ordinal = next_ordinal + ? WHERE key = ?", (count, key))
