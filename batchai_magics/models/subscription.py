"""Resources of a subscription beside workspaces: resource groups, storage accounts, quota usage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from batchai_magics.models.response_object import ResponseObject, WireObject, unreadable

_ID = re.compile(
    r"/?subscriptions/(?P<subscription>[^/]+)/resourceGroups/(?P<group>[^/]+)"
    r"(?:/providers/Microsoft\.Storage/storageAccounts/(?P<account>[^/]+))?/?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ResourceGroup:
    """A resource group, which contains workspaces and storage accounts; deleting it deletes them."""

    subscription: str
    name: str
    location: str
    tags: Mapping[str, str] = field(default_factory=dict)

    def to_wire(self) -> WireObject:
        """The JSON of Azure Resource Manager."""
        return {
            "id": f"/subscriptions/{self.subscription}/resourceGroups/{self.name}",
            "location": self.location,
            "name": self.name,
            "properties": {"provisioningState": "Succeeded"},
            "tags": dict(self.tags) or None,
            "type": "Microsoft.Resources/resourceGroups",
        }

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> ResourceGroup:
        """Reads the JSON of Azure Resource Manager; raises ServiceError if a field is missing or invalid."""
        response = ResponseObject.of(data, "the resource group")
        subscription, group, _ = _parts(response)
        return cls(subscription, group, response.text("location", ""), response.object("tags").fields)


@dataclass(frozen=True)
class StorageAccount:
    """A storage account, which contains shares and containers."""

    subscription: str
    group: str
    name: str
    location: str
    sku: str = "Standard_LRS"
    kind: str = "Storage"

    def to_wire(self) -> WireObject:
        """The JSON of Azure Resource Manager."""
        group = f"/subscriptions/{self.subscription}/resourceGroups/{self.group}"
        return {
            "id": f"{group}/providers/Microsoft.Storage/storageAccounts/{self.name}",
            "kind": self.kind,
            "location": self.location,
            "name": self.name,
            "primaryLocation": self.location,
            "provisioningState": "Succeeded",
            "resourceGroup": self.group,
            "sku": {"name": self.sku, "tier": self.sku.partition("_")[0]},
            "type": "Microsoft.Storage/storageAccounts",
        }

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> StorageAccount:
        """Reads the JSON of Azure Resource Manager; raises ServiceError if a field is missing or invalid."""
        response = ResponseObject.of(data, "the storage account")
        subscription, group, name = _parts(response)
        if not name:
            raise unreadable(f"{response.path}.id", "it names no account")
        return cls(
            subscription=subscription,
            group=group,
            name=name,
            location=response.text("location", ""),
            sku=response.object("sku").text("name", "Standard_LRS"),
            kind=response.text("kind", "Storage"),
        )


@dataclass(frozen=True)
class Usage:
    """The usage of a quota; `name` is its identifier, `localized_name` its display name."""

    name: str
    localized_name: str
    current: int
    limit: int

    def to_wire(self) -> WireObject:
        """The service's JSON."""
        return {
            "unit": "Count",
            "currentValue": self.current,
            "limit": self.limit,
            "name": {"value": self.name, "localizedValue": self.localized_name},
        }

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Usage:
        """Reads the service's JSON; raises ServiceError if a field is missing or invalid."""
        response = ResponseObject.of(data, "the usage")
        name = response.object("name")
        return cls(
            name=name.text("value"),
            localized_name=name.text("localizedValue", name.text("value")),
            current=response.number("currentValue"),
            limit=response.number("limit"),
        )


def _parts(response: ResponseObject) -> tuple[str, str, str]:
    """Subscription, group and account of the id; the account may be empty."""
    match = _ID.fullmatch(response.text("id"))
    if not match:
        raise unreadable(f"{response.path}.id", f"{response.text('id')!r} is not an id")
    return match["subscription"], match["group"], match["account"] or ""
