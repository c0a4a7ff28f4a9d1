"""Quotas: how many clusters and cores there may be, and how many there are."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter

from batchai_magics.backends.base import Usage
from batchai_magics.errors import ConflictError
from batchai_magics.models.vm_sizes import SIZES, lookup

MOST_CLUSTERS = 20
DEFAULT_CORES = 1000
FAMILIES = ("D", "Dv2", "NC", "NCv2", "NCv3", "ND", "NV")


def usages(db: sqlite3.Connection, core_quota: int) -> list[Usage]:
    """The service's list: clusters, all cores, the cores of each family; dedicated, then low priority."""
    used: Counter[tuple[bool, str]] = Counter()
    clusters = db.execute("SELECT spec, target FROM cluster JOIN resource USING (key)").fetchall()
    for row in clusters:
        properties = json.loads(row["spec"])["properties"]
        cores = lookup(properties["vmSize"]).vcpus * row["target"]
        is_low = properties.get("vmPriority") == "lowpriority"
        used[is_low, family(properties["vmSize"])] += cores
        used[is_low, ""] += cores
    found = [Usage("Clusters", "Clusters", len(clusters), MOST_CLUSTERS)]
    for is_low, word, shown in ((False, "Dedicated", "Dedicated"), (True, "LowPriority", "Low Priority")):
        total = "Total Cluster {} Regional vCPUs"
        found.append(Usage(total.format(word), total.format(shown), used[is_low, ""], core_quota))
        for name in FAMILIES:
            text = f"Standard {name} Family Cluster {{}} vCPUs"
            found.append(Usage(text.format(word), text.format(shown), used[is_low, name], core_quota))
    return found


def check(db: sqlite3.Connection, size: str, count: int, core_quota: int, *, except_for: str = "") -> None:
    """Raises ConflictError when `count` nodes of a size, beside what there is, are over the quota."""
    query = "SELECT spec, target FROM cluster JOIN resource USING (key) WHERE key != ?"
    rows = db.execute(query, (except_for,)).fetchall()
    used = sum(lookup(json.loads(row["spec"])["properties"]["vmSize"]).vcpus * row["target"] for row in rows)
    asked = lookup(size).vcpus * count
    if used + asked > core_quota:
        text = (
            "Operation results in exceeding quota limits of Core. "
            f"Maximum allowed: {core_quota}, Current in use: {used}, Additional requested: {asked}."
        )
        raise ConflictError(
            text, code="OperationNotAllowed", hint="Resize or delete a cluster, or set core_quota."
        )


def family(size: str) -> str:
    """The family of a VM size: `NCv2` of Standard_NC6s_v2."""
    name = SIZES[size.lower()].name.removeprefix("Standard_")
    letters = re.match(r"[A-Z]+", name)
    version = re.search(r"_(v\d)$", name)
    return (letters[0] if letters else name).removesuffix("S") + (version[1] if version else "")
