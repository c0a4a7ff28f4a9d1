"""What a subscription has beside workspaces: resource groups, storage accounts, usages of quotas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ResourceGroup:
    """A resource group: what holds workspaces and storage accounts, and takes them with it when deleted."""

    subscription: str
    name: str
    location: str
    tags: Mapping[str, str] = field(default_factory=dict)

    def to_wire(self) -> dict[str, Any]:
        """The JSON of Azure Resource Manager."""
        return {
            "id": f"/subscriptions/{self.subscription}/resourceGroups/{self.name}",
            "location": self.location,
            "name": self.name,
            "properties": {"provisioningState": "Succeeded"},
            "tags": dict(self.tags) or None,
            "type": "Microsoft.Resources/resourceGroups",
        }


@dataclass(frozen=True)
class StorageAccount:
    """A storage account: what shares and containers belong to."""

    subscription: str
    group: str
    name: str
    location: str
    sku: str = "Standard_LRS"
    kind: str = "Storage"

    def to_wire(self) -> dict[str, Any]:
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


@dataclass(frozen=True)
class Usage:
    """How much of a quota is used; `name` is the service's word, `localized_name` the one for people."""

    name: str
    localized_name: str
    current: int
    limit: int

    def to_wire(self) -> dict[str, Any]:
        """The service's JSON."""
        return {
            "unit": "Count",
            "currentValue": self.current,
            "limit": self.limit,
            "name": {"value": self.name, "localizedValue": self.localized_name},
        }
