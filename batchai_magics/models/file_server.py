"""File servers: spec and resource."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import Field

from batchai_magics.models.cluster_spec import UserAccountSettings
from batchai_magics.models.mount_volumes import ResourceRef
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.response_object import Provisioning, ResponseObject, WireObject, head
from batchai_magics.models.wire_model import WireModel


class CachingType(enum.Enum):
    """How a server's disks are cached."""

    NONE = "none"
    READ_ONLY = "readonly"
    READ_WRITE = "readwrite"


class StorageAccountType(enum.Enum):
    """The redundancy and speed of a server's disks."""

    STANDARD = "Standard_LRS"
    PREMIUM = "Premium_LRS"


class DataDisks(WireModel):
    """The disks of a file server: their number, size in GB, caching and type."""

    disk_size_in_gb: Annotated[int, Field(alias="diskSizeInGB", ge=1)]
    caching_type: CachingType = CachingType.NONE
    disk_count: Annotated[int, Field(ge=1)]
    storage_account_type: StorageAccountType


class SshConfiguration(WireModel):
    """The accounts and client addresses that may log in to a file server."""

    public_ips_to_allow: Annotated[tuple[str, ...] | None, Field(alias="publicIPsToAllow")] = None
    user_account_settings: UserAccountSettings


class FileServerSpec(WireModel):
    """The spec of a file server (FileServerCreateParameters of the 2018-05-01 API)."""

    what: ClassVar[str] = "the file server description"
    wrapper: ClassVar[str] = "properties"

    vm_size: str
    ssh_configuration: SshConfiguration
    data_disks: DataDisks
    subnet: ResourceRef | None = None


class MountSettings(WireModel):
    """The addresses of a file server, and the path that it exports."""

    mount_point: str = "/data"
    public_ip: Annotated[str, Field(alias="fileServerPublicIP")] = ""
    internal_ip: Annotated[str, Field(alias="fileServerInternalIP")] = ""


@dataclass(frozen=True)
class FileServer:
    """A file server resource."""

    id: ResourceId
    spec: FileServerSpec
    provisioning: Provisioning
    mount: MountSettings = field(default_factory=MountSettings)

    def to_wire(self) -> WireObject:
        """The service's JSON, without any secret."""
        spec = self.spec.to_wire()["properties"]
        properties = {**self.provisioning.to_wire(), **spec, "mountSettings": self.mount.to_wire()}
        return {**head(self.id), "properties": properties}

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> FileServer:
        """Reads the service's JSON; ServiceError names the path of a field that is missing or invalid."""
        response = ResponseObject.of(data, "the file server")
        properties = response.object("properties")
        return cls(
            id=response.id(),
            spec=properties.model(FileServerSpec),
            provisioning=Provisioning.from_wire(properties.fields),
            mount=properties.object("mountSettings").model(MountSettings),
        )
