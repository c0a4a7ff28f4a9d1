"""The facets of the service, each imported when it is first used: listing jobs needs none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from batchai_magics.backends.base import BackendBase

if TYPE_CHECKING:
    from batchai_magics.backends.base import Accounts, NodeCommands, Storage
    from batchai_magics.backends.service.context import HomeContext, HomeStorage
    from batchai_magics.backends.service.home_subscription import OwnGroups
    from batchai_magics.backends.service.service_facets import (
        ServiceOwnership,
        ServiceRecords,
        ServiceSetupLogs,
        ServiceTelemetry,
        ServiceUsages,
    )


class LazyFacets(BackendBase):
    """Facets that are made on first access; `open_storage` opens the shares, containers and accounts."""

    context: HomeContext
    open_storage: Callable[[], HomeStorage]
    storage: Storage | None
    containers: Storage | None
    accounts: Accounts | None
    groups: OwnGroups
    node_commands: NodeCommands | None
    setup_logs: ServiceSetupLogs
    telemetry: ServiceTelemetry
    records: ServiceRecords
    ownership: ServiceOwnership
    usages: ServiceUsages

    @cached_property
    def home_storage(self) -> HomeStorage:
        """The shares, containers and accounts together."""
        return self.open_storage()


def _groups(service: LazyFacets) -> OwnGroups:
    from batchai_magics.backends.service import resource_changes
    from batchai_magics.backends.service.home_subscription import OwnGroups

    repository = service.context.repository
    return OwnGroups(
        service.context.groups,
        service.accounts,
        workspaces=lambda: [record.resource_id for record in repository.workspaces()],
        delete=lambda workspace: resource_changes.delete(service.context, workspace),
    )


def _node_commands(service: LazyFacets) -> NodeCommands | None:
    from batchai_magics.backends.service.service_facets import ServiceNodeCommands

    context = service.context
    return ServiceNodeCommands(context) if context.facts.has_node_commands else None


def _setup_logs(service: LazyFacets) -> ServiceSetupLogs:
    from batchai_magics.backends.service.service_facets import ServiceSetupLogs

    return ServiceSetupLogs(service.context)


def _telemetry(service: LazyFacets) -> ServiceTelemetry:
    from batchai_magics.backends.service.service_facets import ServiceTelemetry

    return ServiceTelemetry(service.context)


def _records(service: LazyFacets) -> ServiceRecords:
    from batchai_magics.backends.service.service_facets import ServiceRecords

    return ServiceRecords(service.context)


def _ownership(service: LazyFacets) -> ServiceOwnership:
    from batchai_magics.backends.service.service_facets import ServiceOwnership

    return ServiceOwnership(service.context.repository)


def _usages(service: LazyFacets) -> ServiceUsages:
    from batchai_magics.backends.service.service_facets import ServiceUsages

    return ServiceUsages(service.context)


_FACTORIES: Mapping[str, Callable[[LazyFacets], object]] = {
    "storage": lambda service: service.home_storage.shares,
    "containers": lambda service: service.home_storage.containers,
    "accounts": lambda service: service.home_storage.accounts,
    "groups": _groups,
    "node_commands": _node_commands,
    "setup_logs": _setup_logs,
    "telemetry": _telemetry,
    "records": _records,
    "ownership": _ownership,
    "usages": _usages,
}


def make_lazy(cls: type, factories: Mapping[str, Callable[..., object]]) -> None:
    """Has a class make these attributes on first access.

    Type checkers reject a property where a base class has an attribute to assign to.
    """
    for name, make in factories.items():
        facet = cached_property(make)
        facet.__set_name__(cls, name)
        setattr(cls, name, facet)


make_lazy(LazyFacets, _FACTORIES)
