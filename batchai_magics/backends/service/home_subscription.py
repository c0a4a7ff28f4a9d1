"""The subscription of a home: resource groups, storage accounts, and quotas."""

from __future__ import annotations

import base64
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from batchai_magics.backends.base import api_errors
from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.shares import Users
from batchai_magics.backends.service.context import scale_of
from batchai_magics.backends.service.repository import Record, Repository
from batchai_magics.backends.service.resource_views import cluster_spec
from batchai_magics.backends.service.row_files import FileRows
from batchai_magics.errors import ConflictError
from batchai_magics.models.cluster_spec import VmPriority
from batchai_magics.models.resource_ids import check_account_name, check_group_name
from batchai_magics.models.subscription import ResourceGroup, StorageAccount, Usage
from batchai_magics.models.vm_sizes import SIZES, lookup

SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"


class HomeGroups:
    """The resource groups of a home; `empty` deletes what is in one."""

    def __init__(self, rows: FileRows, empty: Callable[[str], None] = lambda name: None) -> None:
        self._rows, self._empty = rows, empty

    def ensure(self, name: str, location: str) -> None:
        """Creates a group unless it exists."""
        self._rows.insert(name, {"name": name, "location": location, "tags": {}})

    def create(self, name: str, location: str, tags: Mapping[str, str] | None = None) -> ResourceGroup:
        """Creates a group, or changes its tags."""
        self.ensure(check_group_name(name), location)
        if tags is not None:
            self._rows.change(name, tags=dict(tags))
        return self.show(name)

    def show(self, name: str) -> ResourceGroup:
        """The group of that name; NotFoundError if it does not exist."""
        row = self._rows.find(name)
        if row is None:
            raise api_errors.group_not_found(name)
        return _group(row)

    def list(self) -> Sequence[ResourceGroup]:
        """All groups, sorted by name."""
        return [_group(row) for row in self._rows.all()]

    def delete(self, name: str) -> None:
        """Deletes a group with everything in it."""
        self.show(name)
        self._empty(name)
        self._rows.delete(name)


def _group(row: Mapping[str, Any]) -> ResourceGroup:
    return ResourceGroup(SUBSCRIPTION, row["name"], row["location"], row["tags"])


class HomeAccounts:
    """The storage accounts of a home; `users` gives the names of the jobs that use some folders."""

    def __init__(self, repository: Repository, users: Users = lambda folders: ()) -> None:
        self._layout, self._rows, self._users = repository.layout, repository.accounts, users
        self._groups = HomeGroups(repository.groups)

    def create(self, name: str, group: str, location: str, sku: str = "Standard_LRS") -> StorageAccount:
        """Creates an account, or returns the existing one of that name and group."""
        check_account_name(name)
        row = {"name": name, "group": group, "location": location, "sku": sku}
        self._rows.insert(name, {**row, "key1": _new_key(), "key2": _new_key()})
        account = self._row(name)
        if account["group"].lower() != group.lower():
            raise api_errors.account_taken(name)
        self._groups.ensure(group, location)
        return _account(account)

    def show(self, name: str) -> StorageAccount:
        """The account of that name; NotFoundError if it does not exist."""
        return _account(self._row(name))

    def list(self, group: str | None = None) -> Sequence[StorageAccount]:
        """The accounts of a group, or all accounts, sorted by name."""
        rows = self._rows.all()
        return [_account(row) for row in rows if group is None or row["group"].lower() == group.lower()]

    def keys(self, name: str) -> tuple[str, str]:
        """The two keys of an account."""
        row = self._row(name)
        return row["key1"], row["key2"]

    def renew_key(self, name: str, number: int) -> None:
        """Replaces key 1 or 2."""
        self._row(name)
        self._rows.change(name, **{f"key{int(number)}": _new_key()})

    def delete(self, name: str) -> None:
        """Deletes an account with its shares and containers; ConflictError while an open job uses one."""
        self._row(name)
        if names := self._users(self._layout.of_account(name)):
            raise api_errors.account_in_use(name, names)
        self._rows.delete(name)
        for kind in ("shares", "containers"):
            for root in (self._layout.home / kind, self._layout.unfinished(kind)):
                private_files.remove_folder(root / name)

    def _row(self, name: str) -> dict[str, Any]:
        row = self._rows.find(name)
        if row is None:
            raise api_errors.account_not_found(name, [row["name"] for row in self._rows.all()])
        return row


def _new_key() -> str:
    """A random key in Azure's format."""
    return base64.b64encode(secrets.token_bytes(64)).decode()


def _account(row: Mapping[str, Any]) -> StorageAccount:
    return StorageAccount(SUBSCRIPTION, row["group"], row["name"], row["location"], row["sku"])


MAX_CLUSTERS = 20
FAMILIES = ("D", "Dv2", "NC", "NCv2", "NCv3", "ND", "NV")


@dataclass(frozen=True)
class Nodes:
    """The current or requested nodes of a cluster."""

    vm_size: str
    count: int
    is_low_priority: bool = False

    @classmethod
    def of(cls, cluster: Record) -> Nodes:
        """The most nodes that a cluster may have."""
        spec = cluster_spec(cluster.spec)
        is_low = spec.vm_priority is VmPriority.LOW_PRIORITY
        return cls(spec.vm_size, scale_of(spec.scale_settings).maximum, is_low)

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
        names |= {name: f"Standard {name} Family Cluster {word} vCPUs" for name in FAMILIES}
        listed += [Usage(text, text, used[is_low, name], core_quota) for name, text in names.items()]
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
