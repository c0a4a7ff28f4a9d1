"""Mounts of clusters and jobs: file shares, blob containers, file servers, and their credentials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pydantic import Field, SecretStr, model_validator
from typing_extensions import Self

from batchai_magics.models.field_types import (
    AnyText,
    FileMode,
    FileUrl,
    MountPath,
    Text,
    VariableName,
    duplicates,
)
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.response_object import WireObject
from batchai_magics.models.wire_model import WireModel

# The keys of `mountVolumes`.
SHARES, CONTAINERS, SERVERS = "azureFileShares", "azureBlobFileSystems", "fileServers"


class ResourceRef(WireModel):
    """A reference to another resource: `{"id": …}`."""

    id: Text


class KeyVaultSecretReference(WireModel):
    """A reference to a secret in Key Vault."""

    source_vault: ResourceRef
    secret_url: Text


class StorageCredentials(WireModel):
    """A storage account key, or a reference to Key Vault. Write-only: responses contain `{}`."""

    account_key: SecretStr | None = None
    account_key_secret_reference: KeyVaultSecretReference | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.account_key and self.account_key_secret_reference:
            raise ValueError("give one of accountKey and accountKeySecretReference")
        return self


class AzureFileShare(WireModel):
    """An Azure file share, mounted at `relativeMountPath` below the mount root."""

    account_name: Text
    azure_file_url: FileUrl
    credentials: StorageCredentials = Field(default_factory=StorageCredentials)
    relative_mount_path: MountPath
    file_mode: FileMode | None = None
    directory_mode: FileMode | None = None


class AzureBlobFileSystem(WireModel):
    """A blob container, mounted at `relativeMountPath` below the mount root."""

    account_name: Text
    container_name: Text
    credentials: StorageCredentials = Field(default_factory=StorageCredentials)
    relative_mount_path: MountPath
    mount_options: str | None = None


class FileServerMount(WireModel):
    """A Batch AI file server (NFS), mounted at `relativeMountPath` below the mount root."""

    file_server: ResourceRef
    source_directory: str | None = None
    relative_mount_path: MountPath
    mount_options: str | None = None


class UnmanagedFileSystem(WireModel):
    """A file system mounted by a custom command, to which the mount path is appended."""

    mount_command: Text
    relative_mount_path: MountPath


Mount = AzureFileShare | AzureBlobFileSystem | FileServerMount | UnmanagedFileSystem


class MountVolumes(WireModel):
    """All mounts of each node."""

    azure_file_shares: tuple[AzureFileShare, ...] | None = None
    azure_blob_file_systems: tuple[AzureBlobFileSystem, ...] | None = None
    file_servers: tuple[FileServerMount, ...] | None = None
    unmanaged_file_systems: tuple[UnmanagedFileSystem, ...] | None = None

    @property
    def all(self) -> tuple[Mount, ...]:
        """Every mount, in the service's order."""
        kinds = (
            self.azure_file_shares,
            self.azure_blob_file_systems,
            self.file_servers,
            self.unmanaged_file_systems,
        )
        return tuple(mount for mounts in kinds for mount in mounts or ())

    @model_validator(mode="after")
    def _check_mount_paths(self) -> Self:
        repeated = duplicates(mount.relative_mount_path.strip("/") for mount in self.all)
        if repeated:
            raise ValueError(f"more than one volume is mounted at {', '.join(repeated)}")
        paths = [PurePosixPath(mount.relative_mount_path) for mount in self.all]
        for path in (PurePosixPath(item.relative_mount_path) for item in self.unmanaged_file_systems or ()):
            for other in paths:
                if path in other.parents or other in path.parents:
                    text = f"{path} and {other} are mounted one inside the other; put them apart"
                    raise ValueError(text)
        return self


class EnvironmentVariable(WireModel):
    """A variable of the job's environment."""

    name: VariableName
    value: AnyText


class SecretVariable(WireModel):
    """A variable of the job's environment with a write-only value."""

    name: VariableName
    value: SecretStr | None = None
    value_secret_reference: KeyVaultSecretReference | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.value and self.value_secret_reference:
            raise ValueError("give one of value and valueSecretReference")
        return self


@dataclass(frozen=True)
class AccountKey:
    """A storage account's name and key for the placeholders of a file; empty parts were not given.

    `default` is the account of mounts without one, on backends with their own shares; it needs no key.
    """

    name: str = ""
    key: str = ""
    default: str = ""

    def __repr__(self) -> str:
        return f"AccountKey(name={self.name!r})"


def with_volumes(volumes: Any, more: Mapping[str, Sequence[Mapping[str, Any]]]) -> Any:
    """The `mountVolumes` of a file with more volumes: key → wire fields of the volumes under that key."""
    if not more:
        return volumes
    joined = dict(volumes) if isinstance(volumes, Mapping) else {}
    for key, items in more.items():
        present = joined.get(key) or []
        if isinstance(present, list):  # else it is left for the validation to reject
            joined[key] = [*present, *items]
    return joined


def share(account: AccountKey, name: str, path: str) -> WireObject:
    """The wire fields of a file share in the account, mounted at `path`."""
    url = f"https://{account.name}.file.core.windows.net/{name}"
    return {"accountName": account.name, "azureFileUrl": url, "relativeMountPath": path, **_key(account)}


def container(account: AccountKey, name: str, path: str) -> WireObject:
    """The wire fields of a blob container in the account, mounted at `path`."""
    return {"accountName": account.name, "containerName": name, "relativeMountPath": path, **_key(account)}


def file_server(server: ResourceId, path: str) -> WireObject:
    """The wire fields of a file server, mounted at `path`."""
    return {"fileServer": {"id": str(server)}, "relativeMountPath": path}


def _key(account: AccountKey) -> dict[str, Any]:
    return {"credentials": {"accountKey": account.key}} if account.key else {}
