"""The storage options of `cluster create` and `job create` become `mountVolumes`."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from batchai_magics.commands.context import Context
from batchai_magics.commands.output.refusal import refusal
from batchai_magics.models.file_server import FileServer
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.load import AccountKey
from batchai_magics.models.mounts import (
    CONTAINERS,
    SERVERS,
    SHARES,
    container,
    file_server,
    share,
    with_volumes,
)

_MISSING = (
    "Please configure Azure Storage account name via AZURE_BATCHAI_STORAGE_ACCOUNT "
    "or provide storage_account value in batchai section of your az configuration file."
)


def with_mounts(volumes: Any, arguments: Namespace, account: AccountKey, *, holder: ResourceId) -> Any:
    """`volumes` (what the file says) and what the options add; None when there is nothing."""
    added = {
        SHARES: _share(arguments, account),
        CONTAINERS: _container(arguments, account),
        SERVERS: _file_server(arguments, holder),
    }
    return with_volumes(volumes, {key: [item] for key, item in added.items() if item})


def subnet_of_servers(context: Context, nfs: str | None, given: Any, *, holder: ResourceId) -> Any:
    """The subnet of a cluster that mounts a file server: the server's, which must be the one it is given."""
    if not nfs:
        return given
    server = context.backend.show(_server_id(nfs, holder))
    assert isinstance(server, FileServer)
    theirs = server.spec.subnet.to_wire() if server.spec.subnet else None
    if theirs and given and theirs["id"].lower() != str(given.get("id")).lower():
        raise refusal("Cluster and mounted NFS must be in the same subnet.")
    return given or theirs


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


def _file_server(arguments: Namespace, holder: ResourceId) -> dict[str, Any] | None:
    if not arguments.nfs:
        return None
    if not arguments.nfs_mount_path:
        raise refusal("File server relative mount path cannot be empty.")
    server = file_server(_server_id(arguments.nfs, holder), arguments.nfs_mount_path)
    return {**server, "mountOptions": "rw"}


def _server_id(nfs: str, holder: ResourceId) -> ResourceId:
    if "/" in nfs:
        return ResourceId.parse(nfs)
    return holder.workspace_id.child(Kind.FILE_SERVER, nfs)


def _check(account: AccountKey, path: str, what: str) -> None:
    if not path:
        raise refusal(f"{what} relative mount path cannot be empty.")
    if not account.name:
        raise refusal(_MISSING, hint="Or give --storage-account-name.")
