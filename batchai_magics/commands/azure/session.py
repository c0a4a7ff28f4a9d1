"""`login`, `account`, `provider`, `role`, `configure`: what a session of `az` begins with."""

from __future__ import annotations

import getpass
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from batchai_magics.commands.azure.group import pairs
from batchai_magics.commands.context import Context
from batchai_magics.commands.handlers.use import Choice
from batchai_magics.commands.output.result import Noted
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError, did_you_mean

NOTHING_TO_DO = "There is nothing to do: jobs run on this machine."
_TENANT = "00000000-0000-0000-0000-000000000000"
_PROVIDERS = ("Microsoft.BatchAI", "Microsoft.Batch", "Microsoft.Storage", "Microsoft.Resources")
_DEFAULTS = {  # what `az configure` calls it → the setting
    "group": "resource_group",
    **{
        name: name
        for name in ("location", "workspace", "experiment", "cluster", "storage_account", "storage_key")
    },
}


def login(context: Context, arguments: Namespace) -> Noted:
    """The subscription; nobody has to log in here."""
    return Noted([_account(context.settings)], _nothing(context))


def logout(context: Context, arguments: Namespace) -> Noted:
    """Nothing: there was no login."""
    return Noted(None, _nothing(context))


def show_account(context: Context, arguments: Namespace) -> dict[str, Any]:
    """The subscription."""
    return _account(context.settings)


def list_accounts(context: Context, arguments: Namespace) -> list[dict[str, Any]]:
    """The subscriptions: the one."""
    return [_account(context.settings)]


def set_account(context: Context, arguments: Namespace) -> Choice | Noted:
    """The session's subscription; this machine has one only, which stays."""
    if not arguments.name:
        raise UsageError("account set: the following arguments are required: --subscription/-s")
    if context.backend.capabilities.logins:
        return Choice(replace(context.settings, subscription=arguments.name))
    note = f"This machine has one subscription ({context.settings.subscription}); it stays chosen."
    return Noted(None, (note,))


def list_locations(context: Context, arguments: Namespace) -> list[dict[str, Any]]:
    """The locations; this machine is all of them."""
    name = context.settings.location
    return [{"displayName": name.capitalize(), "name": name}]


def list_providers(context: Context, arguments: Namespace) -> list[dict[str, Any]]:
    """The providers, all registered."""
    return [_provider(context.settings, name) for name in _PROVIDERS]


def show_provider(context: Context, arguments: Namespace) -> dict[str, Any]:
    """The provider, registered."""
    return _provider(context.settings, _known(arguments.namespace))


def register_provider(context: Context, arguments: Namespace) -> Noted:
    """Nothing: every provider is registered."""
    name = _known(arguments.namespace)
    return Noted(None, (f"{name} is registered.",))


def assign_role(context: Context, arguments: Namespace) -> Noted:
    """The assignment as it was asked for; nobody is kept out here."""
    data = {
        "principalName": arguments.assignee,
        "roleDefinitionName": arguments.role,
        "scope": arguments.scope or f"/subscriptions/{context.settings.subscription}",
        "type": "Microsoft.Authorization/roleAssignments",
    }
    return Noted(data, _nothing(context))


def list_roles(context: Context, arguments: Namespace) -> list[dict[str, Any]]:
    """The assignments: none is kept."""
    return []


def drop_role(context: Context, arguments: Namespace) -> Noted:
    """Nothing: no assignment is kept."""
    return Noted(None, _nothing(context))


def configure(context: Context, arguments: Namespace) -> Choice:
    """The settings with the defaults that the line names."""
    if not arguments.defaults:
        return Choice(context.settings)
    return Choice(replace(context.settings, **defaults_of(arguments)))


def defaults_of(arguments: Namespace) -> Mapping[str, Any]:
    """The settings that a line of `configure` changes, by name; no value means the default again."""
    original = {item.name: item.default for item in fields(Settings)}
    chosen: dict[str, Any] = {}
    for name, value in pairs(arguments.defaults or (), "--defaults").items():
        if name not in _DEFAULTS:
            hint = did_you_mean(name, _DEFAULTS) or f"known: {', '.join(_DEFAULTS)}"
            raise UsageError(f"--defaults: there is no default {name!r}", hint=hint)
        setting = _DEFAULTS[name]
        chosen[setting] = value or original[setting]
    return chosen


def _account(settings: Settings) -> dict[str, Any]:
    return {
        "cloudName": "AzureCloud",
        "id": settings.subscription,
        "isDefault": True,
        "name": settings.backend,
        "state": "Enabled",
        "tenantId": _TENANT,
        "user": {"name": getpass.getuser(), "type": "user"},
    }


def _provider(settings: Settings, namespace: str) -> dict[str, Any]:
    return {
        "id": f"/subscriptions/{settings.subscription}/providers/{namespace}",
        "namespace": namespace,
        "registrationState": "Registered",
        "resourceTypes": [],
    }


def _known(namespace: str) -> str:
    provider = next((name for name in _PROVIDERS if name.lower() == namespace.lower()), None)
    if provider is None:
        guess = did_you_mean(namespace, _PROVIDERS) or f"known: {', '.join(_PROVIDERS)}"
        raise UsageError(f"--namespace: there is no provider {namespace!r}", hint=guess)
    return provider


def _nothing(context: Context) -> tuple[str, ...]:
    return () if context.backend.capabilities.logins else (NOTHING_TO_DO,)
