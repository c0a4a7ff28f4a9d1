"""Volumes that a line names, as the `mountVolumes` of a job or a cluster: wire JSON, not checked yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from batchai_magics.models.ids import ResourceId
from batchai_magics.models.load import AccountKey

SHARES, CONTAINERS, SERVERS = "azureFileShares", "azureBlobFileSystems", "fileServers"


def with_volumes(volumes: Any, more: Mapping[str, Sequence[Mapping[str, Any]]]) -> Any:
    """`volumes` (what a file says, or nothing) with more of them, by the keys of `mountVolumes`."""
    if not more:
        return volumes
    base = dict(volumes) if isinstance(volumes, Mapping) else {}
    return {**base, **{key: [*(base.get(key) or ()), *items] for key, items in more.items()}}


def share(account: AccountKey, name: str, path: str) -> dict[str, Any]:
    """A file share of the account, mounted at `path`."""
    url = f"https://{account.name}.file.core.windows.net/{name}"
    return {"accountName": account.name, "azureFileUrl": url, "relativeMountPath": path, **_key(account)}


def container(account: AccountKey, name: str, path: str) -> dict[str, Any]:
    """A blob container of the account, mounted at `path`."""
    return {"accountName": account.name, "containerName": name, "relativeMountPath": path, **_key(account)}


def file_server(server: ResourceId, path: str) -> dict[str, Any]:
    """A file server, mounted at `path`."""
    return {"fileServer": {"id": str(server)}, "relativeMountPath": path}


def _key(account: AccountKey) -> dict[str, Any]:
    return {"credentials": {"accountKey": account.key}} if account.key else {}
