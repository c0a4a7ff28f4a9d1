"""`storage account …`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from batchai_magics.commands.command_context import Context
from batchai_magics.commands.output.resource_json import AzObject
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.errors import UsageError
from batchai_magics.models.subscription import StorageAccount

_NUMBERS = {"primary": 1, "key1": 1, "secondary": 2, "key2": 2}


def create(context: Context, arguments: Namespace) -> StorageAccount:
    """Creates an account, or returns the existing one in that group."""
    if arguments.name == DEFAULT_ACCOUNT:
        hint = "Its shares and containers need no --account-name."
        raise UsageError(f"--name: {DEFAULT_ACCOUNT} is the account that is always there", hint=hint)
    settings = context.settings_for(arguments)
    location = arguments.location or context.group_location(settings.resource_group)
    sku = arguments.sku or "Standard_LRS"
    return context.accounts.create(arguments.name, settings.resource_group, location, sku)


def show(context: Context, arguments: Namespace) -> StorageAccount:
    """The account."""
    return context.accounts.show(arguments.name)


def list_all(context: Context, arguments: Namespace) -> Sequence[StorageAccount]:
    """The accounts of the group, by default all."""
    return context.accounts.list(arguments.resource_group)


def check(context: Context, arguments: Namespace) -> AzObject:
    """Whether the name is available."""
    taken = any(account.name == arguments.name for account in context.accounts.list())
    message = f"The storage account named {arguments.name} is already taken." if taken else None
    return {"message": message, "nameAvailable": not taken, "reason": "AlreadyExists" if taken else None}


def delete(context: Context, arguments: Namespace) -> None:
    """Deletes the account with its shares and containers."""
    context.accounts.delete(arguments.name)


def connection_string(context: Context, arguments: Namespace) -> dict[str, str]:
    """The connection string with the first key."""
    key = context.accounts.keys(arguments.name)[0]
    parts = {
        "DefaultEndpointsProtocol": "https",
        "EndpointSuffix": "core.windows.net",
        "AccountName": arguments.name,
        "AccountKey": key,
    }
    return {"connectionString": ";".join(f"{name}={value}" for name, value in parts.items())}


def keys(context: Context, arguments: Namespace) -> list[dict[str, str]]:
    """The two keys."""
    values = context.accounts.keys(arguments.account_name)
    return [
        {"keyName": f"key{number}", "permissions": "FULL", "value": value}
        for number, value in enumerate(values, start=1)
    ]


def renew(context: Context, arguments: Namespace) -> list[dict[str, str]]:
    """Renews a key; returns both."""
    context.accounts.renew_key(arguments.account_name, _NUMBERS[arguments.key])
    return keys(context, arguments)
