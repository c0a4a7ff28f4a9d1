"""Facets of a subscription: resource groups, storage accounts, quotas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from batchai_magics.backends.arm.connection import EndpointConnection, provider_path
from batchai_magics.backends.azure.arm_client import list_items
from batchai_magics.backends.azure.arm_protocol import STORAGE_VERSION, ArmRequest
from batchai_magics.backends.base import api_errors
from batchai_magics.errors import NotFoundError
from batchai_magics.models.resource_ids import check_account_name, check_group_name
from batchai_magics.models.subscription import ResourceGroup, StorageAccount, Usage

GROUP_NOT_FOUND = "ResourceGroupNotFound"


class ServerGroups:
    """Resource groups."""

    def __init__(self, connection: EndpointConnection) -> None:
        self._connection = connection

    def create(self, name: str, location: str, tags: Mapping[str, str] | None = None) -> ResourceGroup:
        """Creates a group, or changes its tags."""
        tags_field = {} if tags is None else {"tags": dict(tags)}
        with self._connection.translated_errors():
            group = self._connection.client.resource_groups.create_or_update(
                check_group_name(name), {"location": location, **tags_field}, cls=_text
            )
        return _group(group)

    def show(self, name: str) -> ResourceGroup:
        """The group of that name."""
        with self._connection.translated_errors():
            return _group(self._connection.client.resource_groups.get(check_group_name(name), cls=_text))

    def list(self) -> Sequence[ResourceGroup]:
        """All groups, by name."""
        subscription = self._connection.subscription
        request = ArmRequest("GET", f"/subscriptions/{subscription}/resourcegroups", version=_GROUPS)
        groups = [ResourceGroup.from_wire(item) for item in list_items(self._connection, request)]
        return sorted(groups, key=lambda group: group.name)

    def delete(self, name: str) -> None:
        """Deletes a group with all workspaces and storage accounts in it; its jobs are terminated first."""
        with self._connection.translated_errors():
            self._connection.client.resource_groups.begin_delete(check_group_name(name)).result()


class ServerAccounts:
    """Storage accounts."""

    def __init__(self, connection: EndpointConnection, groups: ServerGroups) -> None:
        self._connection, self._groups = connection, groups

    def create(self, name: str, group: str, location: str, sku: str = "Standard_LRS") -> StorageAccount:
        """Creates an account, and its group if it is missing."""
        path = self._path(check_account_name(name), check_group_name(group))
        body = {"location": location, "sku": {"name": sku}, "kind": "StorageV2", "properties": {}}
        request = ArmRequest("PUT", path, body=body, version=STORAGE_VERSION)
        try:
            return StorageAccount.from_wire(self._connection.create(request))
        except NotFoundError as error:
            if error.code != GROUP_NOT_FOUND:
                raise
            self._groups.create(group, location)
            return StorageAccount.from_wire(self._connection.create(request))

    def show(self, name: str) -> StorageAccount:
        """The account of that name, in any group."""
        accounts = self.list()
        account = next((item for item in accounts if item.name == name.lower()), None)
        if account is None:
            raise api_errors.account_not_found(name, [item.name for item in accounts])
        return account

    def list(self, group: str | None = None) -> Sequence[StorageAccount]:
        """The accounts of a group, or all, by name."""
        scope = f"/subscriptions/{self._connection.subscription}"
        scope += f"/resourceGroups/{check_group_name(group)}" if group else ""
        path = f"{scope}/providers/Microsoft.Storage/storageAccounts"
        items = list_items(self._connection, ArmRequest("GET", path, version=STORAGE_VERSION))
        return sorted((StorageAccount.from_wire(item) for item in items), key=lambda account: account.name)

    def keys(self, name: str) -> tuple[str, str]:
        """The two keys of an account."""
        account = self.show(name)
        return self.keys_in(account.name, account.group)

    def keys_in(self, name: str, group: str) -> tuple[str, str]:
        """The two keys of an account whose group is known."""
        path = f"{self._path(name, group)}/listKeys"
        keys = (
            self._connection.request_json(ArmRequest("POST", path, version=STORAGE_VERSION)).get("keys") or ()
        )
        first, second = (str(key["value"]) for key in list(keys)[:2])
        return first, second

    def renew_key(self, name: str, number: int) -> None:
        """Regenerates key 1 or 2."""
        account = self.show(name)
        path = f"{self._path(account.name, account.group)}/regenerateKey"
        body = {"keyName": f"key{number}"}
        self._connection.request_json(ArmRequest("POST", path, body=body, version=STORAGE_VERSION))

    def delete(self, name: str) -> None:
        """Deletes an account with its shares and containers."""
        account = self.show(name)
        self._connection.delete(
            ArmRequest("DELETE", self._path(account.name, account.group), version=STORAGE_VERSION)
        )

    def _path(self, name: str, group: str) -> str:
        scope = f"/subscriptions/{self._connection.subscription}/resourceGroups/{group}"
        return f"{scope}/providers/Microsoft.Storage/storageAccounts/{name}"


class ServerUsages:
    """The quotas of a subscription."""

    def __init__(self, connection: EndpointConnection) -> None:
        self._connection = connection

    def list(self, location: str) -> Sequence[Usage]:
        """The usage of each quota."""
        path = provider_path(self._connection.subscription, f"locations/{location}/usages")
        return [Usage.from_wire(item) for item in list_items(self._connection, ArmRequest("GET", path))]


_GROUPS = "2021-04-01"


def _text(response: Any, *_: Any) -> str:
    return str(response.http_response.text())


def _group(text: Any) -> ResourceGroup:
    import json

    return ResourceGroup.from_wire(json.loads(text))
