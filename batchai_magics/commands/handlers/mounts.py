"""The storage options of `cluster create` and `job create` become `mountVolumes`."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from batchai_magics.commands.context import Context
from batchai_magics.commands.output.refusal import refusal
from batchai_magics.models.file_server import FileServer
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.load import AccountKey

_MISSING = (
    "Please configure Azure Storage account name via AZURE_BATCHAI_STORAGE_ACCOUNT "
    "or provide storage_account value in batchai section of your az configuration file."
)


def with_mounts(volumes: Any, arguments: Namespace, given: AccountKey, *, holder: ResourceId) -> Any:
    """`volumes` (what the file says) and what the options add; None when there is nothing."""
    added = {
        "azureFileShares": _share(arguments, given),
        "azureBlobFileSystems": _container(arguments, given),
        "fileServers": _file_server(arguments, holder),
    }
    return joined(volumes, {key: [item] for key, item in added.items() if item})


def joined(volumes: Any, more: dict[str, list[dict[str, Any]]]) -> Any:
    """Both together."""
    if not more:
        return volumes
    base = dict(volumes or {})
    return {**base, **{key: [*(base.get(key) or []), *items] for key, items in more.items()}}


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


def _share(arguments: Namespace, given: AccountKey) -> dict[str, Any] | None:
    if not arguments.afs_name:
        return None
    _check(given, arguments.afs_mount_path, "Azure File share")
    url = f"https://{given.name}.file.core.windows.net/{arguments.afs_name}"
    place = {"azureFileUrl": url, "relativeMountPath": arguments.afs_mount_path}
    return {"accountName": given.name, **place, **_credentials(given)}


def _container(arguments: Namespace, given: AccountKey) -> dict[str, Any] | None:
    if not arguments.bfs_name:
        return None
    _check(given, arguments.bfs_mount_path, "Azure Storage Container")
    place = {"containerName": arguments.bfs_name, "relativeMountPath": arguments.bfs_mount_path}
    return {"accountName": given.name, **place, **_credentials(given)}


def _file_server(arguments: Namespace, holder: ResourceId) -> dict[str, Any] | None:
    if not arguments.nfs:
        return None
    if not arguments.nfs_mount_path:
        raise refusal("File server relative mount path cannot be empty.")
    id = str(_server_id(arguments.nfs, holder))
    return {"fileServer": {"id": id}, "relativeMountPath": arguments.nfs_mount_path, "mountOptions": "rw"}


def _server_id(nfs: str, holder: ResourceId) -> ResourceId:
    if "/" in nfs:
        return ResourceId.parse(nfs)
    return holder.workspace_id.child(Kind.FILE_SERVER, nfs)


def _check(given: AccountKey, path: str, what: str) -> None:
    if not path:
        raise refusal(f"{what} relative mount path cannot be empty.")
    if not given.name:
        raise refusal(_MISSING, hint="Or give --storage-account-name.")


def _credentials(given: AccountKey) -> dict[str, Any]:
    return {"credentials": {"accountKey": given.key}} if given.key else {}
