"""Clusters in the database: how many nodes each is to have, and between which bounds."""

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
    target: int = 0  # how many nodes it is to have
    minimum: int | None = None  # of an auto-scale cluster
    maximum: int | None = None
    idle_s: float = 0.0  # how long a node of an auto-scale cluster may be idle
    next_ordinal: int = 0  # of the next node that is made


def insert(db: sqlite3.Connection, cluster: ClusterRow) -> None:
    """Writes a new cluster down."""
    values = cluster._asdict()
    db.execute(f"INSERT INTO cluster ({', '.join(values)}) VALUES (:{', :'.join(values)})", values)


def get(db: sqlite3.Connection, key: str) -> ClusterRow:
    """A cluster that is there."""
    return ClusterRow(**columns(db.execute("SELECT * FROM cluster WHERE key = ?", (key,)).fetchone()))


def is_any_auto_scaled(db: sqlite3.Connection) -> bool:
    """Whether any cluster's number of nodes follows its queue."""
    return db.execute("SELECT 1 FROM cluster WHERE maximum IS NOT NULL LIMIT 1").fetchone() is not None


def auto_scaled(db: sqlite3.Connection, key: str = "") -> list[ClusterRow]:
    """The clusters whose number of nodes follows their queue; only the one of that key when there is one."""
    query = "SELECT * FROM cluster WHERE maximum IS NOT NULL AND ? IN ('', key)"
    return [ClusterRow(**columns(row)) for row in db.execute(query, (key,)).fetchall()]


def sizes(db: sqlite3.Connection, *, except_for: str = "") -> list[tuple[str, int]]:
    """The wire JSON of every cluster but for one, and how many nodes it is to have."""
    query = "SELECT spec, target FROM cluster JOIN resource USING (key) WHERE key != ?"
    return [(spec, target) for spec, target in db.execute(query, (except_for,))]


def set_bounds(db: sqlite3.Connection, key: str, minimum: int | None, maximum: int | None) -> None:
    """Changes the bounds of a cluster; None for one of a fixed number of nodes."""
    db.execute("UPDATE cluster SET minimum = ?, maximum = ? WHERE key = ?", (minimum, maximum, key))


def set_target(db: sqlite3.Connection, key: str, target: int) -> None:
    """Changes how many nodes a cluster is to have."""
    db.execute("UPDATE cluster SET target = ?, changed = ? WHERE key = ?", (target, time.time(), key))


def skip_ordinals(db: sqlite3.Connection, key: str, count: int) -> None:
    """Notes that so many nodes were made."""
    db.execute("UPDATE cluster SET next_ordinal = next_ordinal + ? WHERE key = ?", (count, key))


def delete(db: sqlite3.Connection, key: str) -> list[str]:
    """Forgets a cluster; gives the name of its folder."""
    guids = [guid for (guid,) in db.execute("SELECT guid FROM cluster WHERE key = ?", (key,))]
    db.execute("DELETE FROM cluster WHERE key = ?", (key,))
    return guids
