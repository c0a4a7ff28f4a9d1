"""The subscription of a home: resource groups, which are deleted with everything in them, and quotas."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from batchai_magics.backends.base import api_errors
from batchai_magics.errors import ConflictError
from batchai_magics.models.resource_ids import check_group_name
from batchai_magics.models.subscription import ResourceGroup, Usage
from batchai_magics.models.vm_sizes import SIZES, lookup

if TYPE_CHECKING:
    from batchai_magics.backends.base import Accounts
    from batchai_magics.models.resource_ids import ResourceId


SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"


class Rows(Protocol):
    """Named rows: JSON objects whose names are matched case-insensitively."""

    def find(self, name: str) -> dict[str, Any] | None:
        """The row of that name; None if it does not exist."""

    def all(self) -> list[dict[str, Any]]:
        """All rows, sorted by name."""

    def insert(self, name: str, row: Mapping[str, Any]) -> None:
        """Adds a row unless it exists."""

    def change(self, name: str, **values: Any) -> None:
        """Changes values of a row, atomically."""

    def delete(self, name: str) -> None:
        """Deletes a row, if it exists."""


class HomeGroups:
    """The resource groups of a home. The backend deletes their contents."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def ensure(self, name: str, location: str) -> None:
        """Creates a group unless it exists."""
        self.rows.insert(name, {"name": name, "location": location, "tags": {}})

    def create(self, name: str, location: str, tags: Mapping[str, str] | None = None) -> ResourceGroup:
        """Creates a group, or changes its tags."""
        self.ensure(check_group_name(name), location)
        if tags is not None:
            self.rows.change(name, tags=dict(tags))
        return self.show(name)

    def show(self, name: str) -> ResourceGroup:
        """The group of that name; NotFoundError if it does not exist."""
        row = self.rows.find(name)
        if row is None:
            raise api_errors.group_not_found(name)
        return _group(row)

    def list(self) -> Sequence[ResourceGroup]:
        """All groups, sorted by name."""
        return [_group(row) for row in self.rows.all()]


def _group(row: Mapping[str, Any]) -> ResourceGroup:
    return ResourceGroup(SUBSCRIPTION, row["name"], row["location"], row["tags"])


class OwnGroups(HomeGroups):
    """Resource groups with their contents: `workspaces` lists those of all groups, `delete` deletes one."""

    def __init__(
        self,
        rows: Rows,
        accounts: Accounts | None,
        *,
        workspaces: Callable[[], Iterable[ResourceId]],
        delete: Callable[[ResourceId], None],
    ) -> None:
        super().__init__(rows)
        self._accounts = accounts
        self._workspaces, self._delete_workspace = workspaces, delete

    def delete(self, name: str) -> None:
        """Deletes a group with all its workspaces and storage accounts; jobs are ended first."""
        self.show(name)
        for workspace in self._workspaces():
            if workspace.group.lower() == name.lower():
                self._delete_workspace(workspace)
        if self._accounts:
            for account in self._accounts.list(name):
                self._accounts.delete(account.name)
        self.rows.delete(name)


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
