"""What the clusters in the store use of the quotas."""

from __future__ import annotations

import json
import sqlite3

from batchai_magics.backends.base import Usage
from batchai_magics.backends.service import quotas
from batchai_magics.models.cluster import VmPriority

DEFAULT_CORES = quotas.DEFAULT_CORES


def usages(db: sqlite3.Connection, core_quota: int) -> list[Usage]:
    """The service's list of quotas, with what is used of each."""
    return quotas.usages(_nodes(db), core_quota)


def check(db: sqlite3.Connection, size: str, count: int, core_quota: int, *, except_for: str = "") -> None:
    """Raises ConflictError when `count` nodes of a size, beside what there is, are over the quota."""
    quotas.check(quotas.Nodes(size, count), _nodes(db, except_for), core_quota)


def _nodes(db: sqlite3.Connection, except_for: str = "") -> list[quotas.Nodes]:
    """The nodes of each cluster, but for one."""
    query = "SELECT spec, target FROM cluster JOIN resource USING (key) WHERE key != ?"
    rows = [
        (json.loads(row["spec"])["properties"], row["target"]) for row in db.execute(query, (except_for,))
    ]
    low = VmPriority.LOW_PRIORITY.value
    return [
        quotas.Nodes(properties["vmSize"], target, properties.get("vmPriority") == low)
        for properties, target in rows
    ]
