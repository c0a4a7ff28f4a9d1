"""What goes into a backend and comes out of it, beside the resources."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from batchai_magics.models.cluster import ClusterSpec
from batchai_magics.models.file_server import FileServerSpec
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.job import STDOUTERR, JobSpec


@dataclass(frozen=True)
class WorkspaceSpec:
    """What a workspace is made of."""

    location: str = "local"


@dataclass(frozen=True)
class ExperimentSpec:
    """What an experiment is made of: nothing but its name."""


Spec = WorkspaceSpec | ExperimentSpec | ClusterSpec | JobSpec | FileServerSpec


@dataclass(frozen=True)
class OutputFile:
    """A file or folder that a job wrote; `path` is relative to its output directory, with `/`."""

    path: str
    is_directory: bool
    size_bytes: int
    modified: datetime | None = None
    download_url: str | None = None  # where a browser or curl gets it; None for a folder

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class FileRef:
    """A file in one of a job's output directories (`stdouterr` holds its logs)."""

    job: ResourceId
    path: str
    directory_id: str = STDOUTERR


@dataclass(frozen=True)
class Span:
    """Bytes `start` to `end` of a file (absolute offsets) were written by process `rank`."""

    start: int
    end: int
    rank: int


@dataclass(frozen=True)
class Written:
    """The bytes from `start` (an absolute offset) on were written at `time`, in seconds since 1970."""

    start: int
    time: float


@dataclass(frozen=True)
class Chunk:
    """A piece of a file.

    `offset` is where `data` starts; `size` is how long the file is now; `is_complete` says that it will
    not grow any more. `spans` says which rank wrote which bytes of the piece, `times` when they were written
    (to a tenth of a second, each up to the next one), where that is known.
    A file that is not there (yet) is an empty chunk of size 0.
    """

    data: bytes
    offset: int
    size: int
    is_complete: bool
    spans: tuple[Span, ...] = ()
    times: tuple[Written, ...] = ()

    @property
    def end(self) -> int:
        """Where to read on."""
        return self.offset + len(self.data)


@dataclass(frozen=True)
class Capabilities:
    """What a backend can do. A description that needs more is refused by the field's name."""

    name: str
    containers: bool = True
    setup_tasks: bool = True
    auto_scale: bool = True
    file_servers: bool = True
    unmanaged_mounts: bool = True
    key_vault: bool = True
    runs_here: bool = False  # jobs share this machine's interpreter and file system


@dataclass(frozen=True)
class ResourceGroup:
    """A resource group: what holds workspaces and storage accounts, and takes them with it when deleted."""

    subscription: str
    name: str
    location: str
    tags: Mapping[str, str] = field(default_factory=dict)

    def to_wire(self) -> dict[str, Any]:
        """The JSON of Azure Resource Manager."""
        return {
            "id": f"/subscriptions/{self.subscription}/resourceGroups/{self.name}",
            "location": self.location,
            "name": self.name,
            "properties": {"provisioningState": "Succeeded"},
            "tags": dict(self.tags) or None,
            "type": "Microsoft.Resources/resourceGroups",
        }


@dataclass(frozen=True)
class StorageAccount:
    """A storage account: what shares and containers belong to."""

    subscription: str
    group: str
    name: str
    location: str
    sku: str = "Standard_LRS"
    kind: str = "Storage"

    def to_wire(self) -> dict[str, Any]:
        """The JSON of Azure Resource Manager."""
        group = f"/subscriptions/{self.subscription}/resourceGroups/{self.group}"
        return {
            "id": f"{group}/providers/Microsoft.Storage/storageAccounts/{self.name}",
            "kind": self.kind,
            "location": self.location,
            "name": self.name,
            "primaryLocation": self.location,
            "provisioningState": "Succeeded",
            "resourceGroup": self.group,
            "sku": {"name": self.sku, "tier": self.sku.partition("_")[0]},
            "type": "Microsoft.Storage/storageAccounts",
        }


@dataclass(frozen=True)
class Usage:
    """How much of a quota is used; `name` is the service's word, `localized_name` the one for people."""

    name: str
    localized_name: str
    current: int
    limit: int

    def to_wire(self) -> dict[str, Any]:
        """The service's JSON."""
        return {
            "unit": "Count",
            "currentValue": self.current,
            "limit": self.limit,
            "name": {"value": self.name, "localizedValue": self.localized_name},
        }


@dataclass(frozen=True)
class CommandBytes:
    """Bytes that a command on a node has written, to its stdout or its stderr."""

    data: bytes
    is_error: bool = False


@dataclass(frozen=True)
class CommandEnd:
    """The end of a command on a node; 128 and the signal's number when a signal ended it."""

    exit_code: int


CommandOutput = Generator[CommandBytes | CommandEnd, None, None]
