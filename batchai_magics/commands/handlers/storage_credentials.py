"""Storage accounts and keys of mounts: from options, environment, settings or the backend."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from batchai_magics.backends.base import ACCOUNTS, Backend
from batchai_magics.commands.command_context import Context
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.errors import NotFoundError, command_error
from batchai_magics.models.mount_volumes import AccountKey


def account_of(context: Context, arguments: Namespace, env: Mapping[str, str] | None = None) -> AccountKey:
    """The account given by options, environment or settings, in that order; empty without one."""
    known = _known_account(context, env)
    name, key = arguments.storage_account_name or known.name, arguments.storage_account_key
    if key or not name:
        return AccountKey(name, key or known.key)
    if known.key and name == known.name:
        return known
    return AccountKey(name, key_of(context.backend, name) if arguments.storage_account_name else known.key)


def _known_account(context: Context, env: Mapping[str, str] | None) -> AccountKey:
    env = os.environ if env is None else env
    return AccountKey(
        env.get("AZURE_BATCHAI_STORAGE_ACCOUNT") or context.settings.storage_account,
        env.get("AZURE_BATCHAI_STORAGE_KEY") or context.settings.storage_key,
    )


def key_of(backend: Backend, name: str) -> str:
    """The first key of an account; empty for the built-in account, which has none."""
    if name == DEFAULT_ACCOUNT:
        return ""
    try:
        keys = ACCOUNTS.of(backend).keys(name)
    except NotFoundError:
        hint = f"Create it with `batchai storage account create -n {name}`, or give its key."
        raise command_error(f'Cannot find "{name}" storage account.', hint=hint) from None
    if not any(keys):
        raise command_error(f'Cannot find a key for "{name}" storage account.')
    return next(key for key in keys if key)


def with_keys(volumes: Any, backend: Backend) -> Any:
    """The volumes with the key added to each share and container without credentials."""
    if not isinstance(volumes, Mapping):
        return volumes
    kinds = ("azureFileShares", "azureBlobFileSystems")
    keyed = {
        kind: [_with_key(item, backend) for item in volumes[kind]]
        for kind in kinds
        if len(_items(volumes, kind)) == len(volumes.get(kind) or ()) and volumes.get(kind)
    }
    return {**volumes, **keyed}


def _with_key(item: Mapping[str, Any], backend: Backend) -> Mapping[str, Any]:
    name = item.get("accountName")
    if item.get("credentials") or not isinstance(name, str):
        return item
    key = key_of(backend, name)
    return {**item, "credentials": {"accountKey": key}} if key else item


def _items(volumes: Any, kind: str) -> list[Mapping[str, Any]]:
    items = volumes.get(kind) if isinstance(volumes, Mapping) else None
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
