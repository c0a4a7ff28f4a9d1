"""Quotas of clusters and cores: limits, usage, and errors when they are exceeded."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from batchai_magics.errors import ConflictError
from batchai_magics.models.subscription import Usage
from batchai_magics.models.vm_sizes import SIZES, lookup

MAX_CLUSTERS = 20
FAMILIES = ("D", "Dv2", "NC", "NCv2", "NCv3", "ND", "NV")


@dataclass(frozen=True)
class Nodes:
    """The current or requested nodes of a cluster."""

    vm_size: str
    count: int
    is_low_priority: bool = False

    @property
    def cores(self) -> int:
        """Their total number of cores."""
        return lookup(self.vm_size).vcpus * self.count


def usages(clusters: Iterable[Nodes], core_quota: int) -> list[Usage]:
    """The service's list: clusters, all cores, cores per family; dedicated, then low priority."""
    used: Counter[tuple[bool, str]] = Counter()
    cluster_count = 0
    for nodes in clusters:
        cluster_count += 1
        used[nodes.is_low_priority, family(nodes.vm_size)] += nodes.cores
        used[nodes.is_low_priority, ""] += nodes.cores
    listed = [Usage("Clusters", "Clusters", cluster_count, MAX_CLUSTERS)]
    for is_low, word, shown in ((False, "Dedicated", "Dedicated"), (True, "LowPriority", "Low Priority")):
        total = "Total Cluster {} Regional vCPUs"
        listed.append(Usage(total.format(word), total.format(shown), used[is_low, ""], core_quota))
        for name in FAMILIES:
            text = f"Standard {name} Family Cluster {{}} vCPUs"
            listed.append(Usage(text.format(word), text.format(shown), used[is_low, name], core_quota))
    return listed


def check(requested: Nodes, others: Iterable[Nodes], core_quota: int) -> None:
    """Raises ConflictError if the requested nodes and the others exceed the quota."""
    used = sum(nodes.cores for nodes in others)
    if used + requested.cores > core_quota:
        text = (
            "Operation results in exceeding quota limits of Core. "
            f"Maximum allowed: {core_quota}, Current in use: {used}, Additional requested: {requested.cores}."
        )
        hint = "Resize or delete a cluster, or set core_quota."
        raise ConflictError(text, code="OperationNotAllowed", hint=hint)


def family(vm_size: str) -> str:
    """The family of a VM size: `NCv2` for Standard_NC6s_v2."""
    name = SIZES[vm_size.lower()].name.removeprefix("Standard_")
    letters = re.match(r"[A-Z]+", name)
    version = re.search(r"_(v\d)$", name)
    return (letters[0] if letters else name) + (version[1] if version else "")
