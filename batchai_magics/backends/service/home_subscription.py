"""The subscription of a home: resource groups, which are deleted with everything in them, and quotas."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from batchai_magics.errors import ConflictError
from batchai_magics.models.subscription import Usage
from batchai_magics.models.vm_sizes import SIZES, lookup

if TYPE_CHECKING:
    from batchai_magics.backends.base import Accounts
    from batchai_magics.models.resource_ids import ResourceId
    from batchai_magics.models.subscription import ResourceGroup


class GroupStore(Protocol):
    """Stored groups, without their contents."""

    def ensure(self, name: str, location: str) -> None:
        """Creates a group unless it exists."""

    def create(self, name: str, location: str, tags: Mapping[str, str] | None = None) -> ResourceGroup:
        """Creates a group, or changes its tags."""

    def show(self, name: str) -> ResourceGroup:
        """The group of that name; NotFoundError if it does not exist."""

    def list(self) -> Sequence[ResourceGroup]:
        """All groups, sorted by name."""

    def delete_record(self, name: str) -> None:
        """Deletes the record of a group whose contents are gone."""


class OwnGroups:
    """Resource groups with their contents: `workspaces` lists those of all groups, `delete` deletes one."""

    def __init__(
        self,
        rows: GroupStore,
        accounts: Accounts | None,
        *,
        workspaces: Callable[[], Iterable[ResourceId]],
        delete: Callable[[ResourceId], None],
    ) -> None:
        self._rows, self._accounts = rows, accounts
        self._workspaces, self._delete_workspace = workspaces, delete

    def create(self, name: str, location: str, tags: Mapping[str, str] | None = None) -> ResourceGroup:
        """Creates a group, or changes its tags."""
        return self._rows.create(name, location, tags)

    def show(self, name: str) -> ResourceGroup:
        """The group of that name."""
        return self._rows.show(name)

    def list(self) -> Sequence[ResourceGroup]:
        """All groups, sorted by name."""
        return self._rows.list()

    def delete(self, name: str) -> None:
        """Deletes a group with all its workspaces and storage accounts; jobs are ended first."""
        self.show(name)
        for workspace in self._workspaces():
            if workspace.group.lower() == name.lower():
                self._delete_workspace(workspace)
        if self._accounts:
            for account in self._accounts.list(name):
                self._accounts.delete(account.name)
        self._rows.delete_record(name)


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


def quota_usages(clusters: Iterable[Nodes], core_quota: int) -> list[Usage]:
    """The service's list: clusters, all cores, cores per family; dedicated, then low priority."""
    used: Counter[tuple[bool, str]] = Counter()
    cluster_count = 0
    for nodes in clusters:
        cluster_count += 1
        used[nodes.is_low_priority, family(nodes.vm_size)] += nodes.cores
        used[nodes.is_low_priority, ""] += nodes.cores
    listed = [Usage("Clusters", "Clusters", cluster_count, MAX_CLUSTERS)]
    for is_low, word in ((False, "Dedicated"), (True, "LowPriority")):
        names = {"": f"Total Cluster {word} Regional vCPUs"}
        names |= {each: f"Standard {each} Family Cluster {word} vCPUs" for each in FAMILIES}
        listed += [Usage(text, text, used[is_low, each], core_quota) for each, text in names.items()]
    return listed


def check_quotas(requested: Nodes, others: Iterable[Nodes], core_quota: int) -> None:
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
