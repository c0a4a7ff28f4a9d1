"""The local backend's facets, each imported on first access: listing jobs needs none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from batchai_magics.backends.base import BackendBase

if TYPE_CHECKING:
    from batchai_magics.backends.folders.layout import Layout
    from batchai_magics.backends.folders.shares import FolderStorage
    from batchai_magics.backends.local.facets import (
        NodeCommands,
        Ownership,
        Preemption,
        SetupLogs,
        Telemetry,
        Usages,
    )
    from batchai_magics.backends.local.home_cleanup import Cleaning
    from batchai_magics.backends.local.settings import LocalSettings
    from batchai_magics.backends.local.state.account_table import LocalAccounts
    from batchai_magics.backends.local.state.store import Store
    from batchai_magics.backends.local.watch.reconciler import Reconciler
    from batchai_magics.backends.service.groups import OwnGroups


class LazyFacets(BackendBase):
    """Backend facets that are created on first access."""

    settings: LocalSettings
    layout: Layout
    store: Store
    reconciler: Reconciler
    storage: FolderStorage
    containers: FolderStorage
    accounts: LocalAccounts
    groups: OwnGroups
    node_commands: NodeCommands
    preemption: Preemption
    setup_logs: SetupLogs
    telemetry: Telemetry
    ownership: Ownership
    usages: Usages
    cleaning: Cleaning


def _shares(backend: LazyFacets) -> FolderStorage:
    return _folders(backend, "shares", "share")


def _containers(backend: LazyFacets) -> FolderStorage:
    return _folders(backend, "containers", "container")


def _folders(backend: LazyFacets, kind: str, noun: str) -> FolderStorage:
    from batchai_magics.backends.local.guarded_storage import GuardedStorage

    layout = backend.layout
    return GuardedStorage(
        layout.home / kind, layout.unfinished(kind), noun, store=backend.store, layout=layout
    )


def _accounts(backend: LazyFacets) -> LocalAccounts:
    from batchai_magics.backends.local.guarded_storage import GuardedAccounts

    return GuardedAccounts(backend.store, backend.layout)


def _groups(backend: LazyFacets) -> OwnGroups:
    from batchai_magics.backends.local.facets import groups

    return groups(backend.reconciler, backend.accounts)


def _node_commands(backend: LazyFacets) -> NodeCommands:
    from batchai_magics.backends.local.facets import NodeCommands

    return NodeCommands(backend.reconciler)


def _preemption(backend: LazyFacets) -> Preemption:
    from batchai_magics.backends.local.facets import Preemption

    return Preemption(backend.reconciler)


def _setup_logs(backend: LazyFacets) -> SetupLogs:
    from batchai_magics.backends.local.facets import SetupLogs

    return SetupLogs(backend.reconciler)


def _telemetry(backend: LazyFacets) -> Telemetry:
    from batchai_magics.backends.local.facets import Telemetry

    return Telemetry(backend.reconciler)


def _ownership(backend: LazyFacets) -> Ownership:
    from batchai_magics.backends.local.facets import Ownership

    return Ownership(backend.store)


def _usages(backend: LazyFacets) -> Usages:
    from batchai_magics.backends.local.facets import Usages

    return Usages(backend.store, backend.settings.core_quota)


def _cleaning(backend: LazyFacets) -> Cleaning:
    from batchai_magics.backends.local.home_cleanup import Cleaning

    return Cleaning(backend.reconciler)


_FACTORIES: Mapping[str, Callable[[LazyFacets], object]] = {
    "storage": _shares,
    "containers": _containers,
    "accounts": _accounts,
    "groups": _groups,
    "node_commands": _node_commands,
    "preemption": _preemption,
    "setup_logs": _setup_logs,
    "telemetry": _telemetry,
    "ownership": _ownership,
    "usages": _usages,
    "cleaning": _cleaning,
}

for _name, _make in _FACTORIES.items():  # type checkers reject a property where a backend may assign
    _facet = cached_property(_make)
    _facet.__set_name__(LazyFacets, _name)
    setattr(LazyFacets, _name, _facet)
