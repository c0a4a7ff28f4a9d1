"""What a backend has or has not, beside its core; who needs what is missing is told so by name."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast

from batchai_magics.errors import CapabilityError

if TYPE_CHECKING:
    from batchai_magics.backends.base.storage import Accounts, Groups, Storage
    from batchai_magics.models.job_execution import OutputFile
    from batchai_magics.models.resource_ids import ResourceId
    from batchai_magics.models.subscription import Usage
    from batchai_magics.models.telemetry_records import TelemetryRecord

AnyFacet = TypeVar("AnyFacet")


@dataclass(frozen=True)
class StoredItem:
    """Part of the data that a backend stores on this machine, with its path and size."""

    name: str
    path: str
    file_count: int
    size_bytes: int


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


class NodeCommands(Protocol):
    """Commands on the nodes of clusters and jobs."""

    def execute(self, id: ResourceId, node_id: str, command: str, *, tick_s: float = 0.0) -> CommandOutput:
        """Runs a shell command on a node of a cluster or job, in its folder and environment.

        Gives what it writes as it comes, and at last how it ended. Closing the generator ends the command
        with all that it has started. With `tick_s` it gives no bytes at all whenever nothing came for
        so long, so that it can be closed then. NotFoundError (at once) for a node that is not there.
        """


class Preemption(Protocol):
    """Nodes that can be taken away."""

    def preempt(self, cluster: ResourceId, node_id: str) -> None:
        """Takes a node of a lowpriority cluster away, as Azure could at any time; its job is queued again."""


class SetupLogs(Protocol):
    """What the setup tasks of clusters wrote."""

    def files(self, cluster: ResourceId, path: str = "", *, expiry_min: int = 60) -> Sequence[OutputFile]:
        """One level of it, sorted by name, as a backend's `files` gives it for a job."""


class Telemetry(Protocol):
    """What the processes of jobs use of their machines."""

    def read(self, job: ResourceId, *, after: float = 0.0) -> TelemetryRecord:
        """The samples that were taken later than `after`, in seconds since 1970; none before it has run."""


class Ownership(Protocol):
    """Who created which resource."""

    def within(self, key: str) -> Mapping[str, str]:
        """The owner of the resource or resource group of a key and of each resource inside it, by key.

        Resources that were created without an owner are left out.
        """


class Usages(Protocol):
    """Quotas."""

    def list(self, location: str) -> Sequence[Usage]:
        """What is used of each quota."""


class Cleaning(Protocol):
    """What a backend keeps on this machine."""

    def stored_items(self) -> Sequence[StoredItem]:
        """What is kept, part by part."""

    def check(self) -> None:
        """ConflictError that names the jobs which have not ended."""

    def clean(self) -> None:
        """Removes all of it, after a check."""


@dataclass(frozen=True)
class Facet(Generic[AnyFacet]):
    """One facet: the attribute of a backend that it is, and what people call it."""

    attribute: str
    words: str

    def of(self, backend: HasName) -> AnyFacet:
        """The backend's facet; CapabilityError that names both when the backend has none."""
        found = getattr(backend, self.attribute)
        if found is None:
            name = backend.capabilities.name
            raise CapabilityError(
                f"the {name} backend has no {self.words}",
                code="NotSupported",
                hint="Choose another one with --backend, or do without.",
            )
        return cast("AnyFacet", found)


class _Named(Protocol):
    @property
    def name(self) -> str: ...


class HasName(Protocol):
    """What can be asked for a facet: it tells its name."""

    @property
    def capabilities(self) -> _Named:
        """Where the name is."""


STORAGE: Facet[Storage] = Facet("storage", "file shares")
CONTAINERS: Facet[Storage] = Facet("containers", "blob containers")
ACCOUNTS: Facet[Accounts] = Facet("accounts", "storage accounts")
GROUPS: Facet[Groups] = Facet("groups", "resource groups")
NODE_COMMANDS: Facet[NodeCommands] = Facet("node_commands", "commands on nodes")
PREEMPTION: Facet[Preemption] = Facet("preemption", "nodes that can be taken away")
SETUP_LOGS: Facet[SetupLogs] = Facet("setup_logs", "logs of setup tasks")
USAGES: Facet[Usages] = Facet("usages", "quotas")
TELEMETRY: Facet[Telemetry] = Facet("telemetry", "telemetry of jobs")
OWNERSHIP: Facet[Ownership] = Facet("ownership", "record of who created what")
CLEANING: Facet[Cleaning] = Facet("cleaning", "data on this machine to remove")
FACETS = (
    STORAGE,
    CONTAINERS,
    ACCOUNTS,
    GROUPS,
    NODE_COMMANDS,
    PREEMPTION,
    SETUP_LOGS,
    TELEMETRY,
    USAGES,
    OWNERSHIP,
    CLEANING,
)
