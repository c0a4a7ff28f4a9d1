"""`login`, `account`, `group`, `provider`, `role`, `configure`: commands at the start of an `az` session."""

from __future__ import annotations

import getpass
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers.backend_commands import SettingsChoice
from batchai_magics.commands.output.command_result import ValueWithNotes
from batchai_magics.commands.output.resource_json import AzObject
from batchai_magics.config import Settings
from batchai_magics.errors import NotFoundError, UsageError, did_you_mean
from batchai_magics.models.subscription import ResourceGroup
from batchai_magics.options.job_options import assignments


def create_group(context: Context, arguments: Namespace) -> ResourceGroup:
    """Creates a group, or changes the tags of an existing one. Of equal names the last one counts."""
    tags = None if arguments.tags is None else dict(assignments("--tags", arguments.tags, form="NAME=VALUE"))
    return context.groups.create(arguments.name, arguments.location or context.settings.location, tags)


def show_group(context: Context, arguments: Namespace) -> ResourceGroup:
    """The group."""
    return context.groups.show(arguments.name)


def list_groups(context: Context, arguments: Namespace) -> Sequence[ResourceGroup]:
    """All groups."""
    return context.groups.list()


def group_exists(context: Context, arguments: Namespace) -> bool:
    """Whether the group exists."""
    try:
        context.groups.show(arguments.name)
    except NotFoundError:
        return False
    return True


def delete_group(context: Context, arguments: Namespace) -> None:
    """Deletes the group with its workspaces and storage accounts."""
    context.groups.delete(arguments.name)


NOTHING_TO_DO = "There is nothing to do: jobs run on this machine."
_TENANT = "00000000-0000-0000-0000-000000000000"
_PROVIDERS = ("Microsoft.BatchAI", "Microsoft.Batch", "Microsoft.Storage", "Microsoft.Resources")
_DEFAULTS = {  # name in `az configure` → setting
    "group": "resource_group",
    **{
        name: name
        for name in ("location", "workspace", "experiment", "cluster", "storage_account", "storage_key")
    },
}


def login(context: Context, arguments: Namespace) -> ValueWithNotes:
    """The subscription; backends without logins need none."""
    return ValueWithNotes([_account(context.settings)], _no_effect_notes(context))


def logout(context: Context, arguments: Namespace) -> ValueWithNotes:
    """Does nothing."""
    return ValueWithNotes(None, _no_effect_notes(context))


def show_account(context: Context, arguments: Namespace) -> AzObject:
    """The subscription."""
    return _account(context.settings)


def list_accounts(context: Context, arguments: Namespace) -> list[AzObject]:
    """The only subscription."""
    return [_account(context.settings)]


def set_account(context: Context, arguments: Namespace) -> SettingsChoice | ValueWithNotes:
    """Sets the session's subscription; backends without logins have only one."""
    if not arguments.name:
        raise UsageError("account set: the following arguments are required: --subscription/-s")
    if context.backend.capabilities.logins:
        return SettingsChoice(replace(context.settings, subscription=arguments.name))
    note = f"This machine has one subscription ({context.settings.subscription}); it stays chosen."
    return ValueWithNotes(None, (note,))


def list_locations(context: Context, arguments: Namespace) -> list[AzObject]:
    """The only location."""
    name = context.settings.location
    return [{"displayName": name.capitalize(), "name": name}]


def list_providers(context: Context, arguments: Namespace) -> list[AzObject]:
    """The providers, all registered."""
    return [_provider(context.settings, name) for name in _PROVIDERS]


def show_provider(context: Context, arguments: Namespace) -> AzObject:
    """The provider."""
    return _provider(context.settings, _provider_name(arguments.namespace))


def register_provider(context: Context, arguments: Namespace) -> ValueWithNotes:
    """Does nothing: every provider is registered."""
    name = _provider_name(arguments.namespace)
    return ValueWithNotes(None, (f"{name} is registered.",))


def assign_role(context: Context, arguments: Namespace) -> ValueWithNotes:
    """The requested assignment; roles have no effect."""
    data = {
        "principalName": arguments.assignee,
        "roleDefinitionName": arguments.role,
        "scope": arguments.scope or f"/subscriptions/{context.settings.subscription}",
        "type": "Microsoft.Authorization/roleAssignments",
    }
    return ValueWithNotes(data, _no_effect_notes(context))


def list_roles(context: Context, arguments: Namespace) -> list[AzObject]:
    """An empty list: assignments are not stored."""
    return []


def drop_role(context: Context, arguments: Namespace) -> ValueWithNotes:
    """Does nothing: assignments are not stored."""
    return ValueWithNotes(None, _no_effect_notes(context))


def configure(context: Context, arguments: Namespace) -> SettingsChoice:
    """The settings with the given defaults."""
    if not arguments.defaults:
        return SettingsChoice(context.settings)
    return SettingsChoice(replace(context.settings, **defaults_of(arguments)))


def defaults_of(arguments: Namespace) -> Mapping[str, Any]:
    """The settings changed by a `configure` line: the last value of a name; an empty one is the default."""
    original = {item.name: item.default for item in fields(Settings)}
    chosen: dict[str, Any] = {}
    for name, value in assignments("--defaults", arguments.defaults or (), form="NAME=VALUE"):
        if name not in _DEFAULTS:
            hint = did_you_mean(name, _DEFAULTS) or f"known: {', '.join(_DEFAULTS)}"
            raise UsageError(f"--defaults: unknown default {name!r}", hint=hint)
        setting = _DEFAULTS[name]
        chosen[setting] = value or original[setting]
    return chosen


def _account(settings: Settings) -> AzObject:
    return {
        "cloudName": "AzureCloud",
        "id": settings.subscription,
        "isDefault": True,
        "name": settings.backend,
        "state": "Enabled",
        "tenantId": _TENANT,
        "user": {"name": getpass.getuser(), "type": "user"},
    }


def _provider(settings: Settings, namespace: str) -> AzObject:
    return {
        "id": f"/subscriptions/{settings.subscription}/providers/{namespace}",
        "namespace": namespace,
        "registrationState": "Registered",
        "resourceTypes": [],
    }


def _provider_name(namespace: str) -> str:
    provider = next((name for name in _PROVIDERS if name.lower() == namespace.lower()), None)
    if provider is None:
        guess = did_you_mean(namespace, _PROVIDERS) or f"known: {', '.join(_PROVIDERS)}"
        raise UsageError(f"--namespace: unknown provider {namespace!r}", hint=guess)
    return provider


def _no_effect_notes(context: Context) -> tuple[str, ...]:
    return () if context.backend.capabilities.logins else (NOTHING_TO_DO,)
