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


def insert(db: sqlite3.Connection, cluster: ClusterRow) -> None:
    """Inserts a new cluster."""
    values = cluster._asdict()
    db.execute(f"INSERT INTO cluster ({', '.join(values)}) VALUES (:{', :'.join(values)})", values)


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


def sizes(db: sqlite3.Connection, *, except_for: str = "") -> list[tuple[str, int]]:
    """The wire JSON and target size of every cluster but one."""
    query = "SELECT spec, target FROM cluster JOIN resource USING (key) WHERE key != ?"
    return [(spec, target) for spec, target in db.execute(query, (except_for,))]


def set_bounds(db: sqlite3.Connection, key: str, minimum: int | None, maximum: int | None) -> None:
    """Sets the auto-scale bounds of a cluster; None for a fixed size."""
    db.execute("UPDATE cluster SET minimum = ?, maximum = ? WHERE key = ?", (minimum, maximum, key))


def set_target(db: sqlite3.Connection, key: str, target: int) -> None:
    """Sets the target size of a cluster."""
    db.execute("UPDATE cluster SET target = ?, changed = ? WHERE key = ?", (target, time.time(), key))


def skip_ordinals(db: sqlite3.Connection, key: str, count: int) -> None:
    """Reserves ordinals for new nodes."""
    db.execute("UPDATE cluster SET next_ordinal = next_ordinal + ? WHERE key = ?", (count, key))


def delete(db: sqlite3.Connection, key: str) -> list[str]:
    """Deletes a cluster; returns the name of its folder."""
    guids = [guid for (guid,) in db.execute("SELECT guid FROM cluster WHERE key = ?", (key,))]
    db.execute("DELETE FROM cluster WHERE key = ?", (key,))
    return guids
