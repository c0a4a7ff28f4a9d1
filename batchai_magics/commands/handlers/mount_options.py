"""Converts the storage options of `cluster create` and `job create` to `mountVolumes`, with credentials."""

from __future__ import annotations

import os
import secrets
import string
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from batchai_magics.backends.base import ACCOUNTS, CONTAINERS, GROUPS, STORAGE, Backend
from batchai_magics.commands.command_context import Context
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.errors import NotFoundError, command_error
from batchai_magics.models import mount_volumes
from batchai_magics.models.file_server import FileServer
from batchai_magics.models.mount_volumes import AccountKey, container, file_server, share, with_volumes
from batchai_magics.models.resource_ids import Kind, ResourceId


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


_MISSING = (
    "Please configure Azure Storage account name via AZURE_BATCHAI_STORAGE_ACCOUNT "
    "or provide storage_account value in batchai section of your az configuration file."
)
GROUP = "batchaiautostorage"
SHARE, CONTAINER = "batchaishare", "batchaicontainer"
SHARE_MOUNT, CONTAINER_MOUNT = "autoafs", "autobfs"


def with_mounts(volumes: Any, arguments: Namespace, account: AccountKey, *, owner: ResourceId) -> Any:
    """The volumes of the file and those of the options; None without any."""
    added = {
        mount_volumes.SHARES: _share(arguments, account),
        mount_volumes.CONTAINERS: _container(arguments, account),
        mount_volumes.SERVERS: _file_server(arguments, owner),
    }
    return with_volumes(volumes, {key: [item] for key, item in added.items() if item})


def subnet_of_servers(context: Context, nfs: str | None, subnet: Any, *, owner: ResourceId) -> Any:
    """The subnet of a cluster that mounts a file server: the server's, which must match an explicit one."""
    if not nfs:
        return subnet
    server = context.backend.show(_server_id(nfs, owner))
    assert isinstance(server, FileServer)
    theirs = server.spec.subnet.to_wire() if server.spec.subnet else None
    if theirs and subnet and theirs["id"].lower() != str(subnet.get("id")).lower():
        raise command_error("Cluster and mounted NFS must be in the same subnet.")
    return subnet or theirs


def _share(arguments: Namespace, account: AccountKey) -> dict[str, Any] | None:
    if not arguments.afs_name:
        return None
    _check(account, arguments.afs_mount_path, "Azure File share")
    return share(account, arguments.afs_name, arguments.afs_mount_path)


def _container(arguments: Namespace, account: AccountKey) -> dict[str, Any] | None:
    if not arguments.bfs_name:
        return None
    _check(account, arguments.bfs_mount_path, "Azure Storage Container")
    return container(account, arguments.bfs_name, arguments.bfs_mount_path)


def _file_server(arguments: Namespace, owner: ResourceId) -> dict[str, Any] | None:
    if not arguments.nfs:
        return None
    if not arguments.nfs_mount_path:
        raise command_error("File server relative mount path cannot be empty.")
    server = file_server(_server_id(arguments.nfs, owner), arguments.nfs_mount_path)
    return {**server, "mountOptions": "rw"}


def _server_id(nfs: str, owner: ResourceId) -> ResourceId:
    if "/" in nfs:
        return ResourceId.parse(nfs)
    return owner.workspace_id.child(Kind.FILE_SERVER, nfs)


def _check(account: AccountKey, path: str, what: str) -> None:
    if not path:
        raise command_error(f"{what} relative mount path cannot be empty.")
    if not account.name:
        raise command_error(_MISSING, hint="Or give --storage-account-name.")


@dataclass(frozen=True)
class AutoStorage:
    """The auto-storage account and its key; `notes` say what was created."""

    account: str
    key: str
    notes: tuple[str, ...]

    def volumes(self) -> dict[str, list[dict[str, Any]]]:
        """The mounts of its share and container."""
        account = AccountKey(self.account, self.key)
        return {
            mount_volumes.SHARES: [mount_volumes.share(account, SHARE, SHARE_MOUNT)],
            mount_volumes.CONTAINERS: [mount_volumes.container(account, CONTAINER, CONTAINER_MOUNT)],
        }


def auto_storage(backend: Backend, location: str) -> AutoStorage:
    """Finds or creates the auto-storage account of a location with its share and container."""
    notes, accounts = [_group(backend, location)], ACCOUNTS.of(backend)
    known = next((item for item in accounts.list(GROUP) if item.location == location), None)
    if known:
        name = known.name
        notes.append(f"Using existing {name} storage account as an auto-storage account")
    else:
        name = "bai" + "".join(secrets.choice(string.ascii_lowercase) for _ in range(12))
        accounts.create(name, GROUP, location)
        notes.append(f"Created auto storage account {name}")
    STORAGE.of(backend).make(f"{name}/{SHARE}")
    CONTAINERS.of(backend).make(f"{name}/{CONTAINER}")
    return AutoStorage(name, accounts.keys(name)[0], tuple(notes))


def _group(backend: Backend, location: str) -> str:
    groups = GROUPS.of(backend)
    try:
        groups.show(GROUP)
    except NotFoundError:
        groups.create(GROUP, location)
        return f"Creating {GROUP} resource group for auto-storage account"
    return f"BatchAI will use existing {GROUP} resource group for auto-storage account"
