"""Optional parts of a backend; requiring a missing one raises an error that names it."""

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
    """Output of a command on a node, to its stdout or stderr."""

    data: bytes
    is_error: bool = False


@dataclass(frozen=True)
class CommandEnd:
    """The end of a command on a node; 128 plus the signal's number if a signal ended it."""

    exit_code: int


CommandOutput = Generator[CommandBytes | CommandEnd, None, None]


class NodeCommands(Protocol):
    """Commands on the nodes of clusters and jobs."""

    def execute(self, id: ResourceId, node_id: str, command: str, *, tick_s: float = 0.0) -> CommandOutput:
        """Runs a shell command on a node of a cluster or job, in its folder and environment.

        Yields its output as it arrives, and finally how it ended. Closing the generator ends the command and
        everything it started. With `tick_s`, empty bytes are yielded whenever nothing arrived for that long,
        so that the generator can be closed. Raises NotFoundError (immediately) for an unknown node.
        """


class Preemption(Protocol):
    """Nodes that can be preempted."""

    def preempt(self, cluster: ResourceId, node_id: str) -> None:
        """Preempts a node of a lowpriority cluster, as Azure could at any time; its job is requeued."""


class SetupLogs(Protocol):
    """The output of clusters' setup tasks."""

    def files(self, cluster: ResourceId, path: str = "", *, expiry_min: int = 60) -> Sequence[OutputFile]:
        """Lists a folder of it, sorted by name, like a backend's `files` for a job."""


class Telemetry(Protocol):
    """Resource use of jobs' processes."""

    def read(self, job: ResourceId, *, after: float = 0.0) -> TelemetryRecord:
        """The samples taken after the time `after`, in seconds since 1970; empty before the job has run."""


class Ownership(Protocol):
    """Who created which resource."""

    def within(self, key: str) -> Mapping[str, str]:
        """The owners of the resource or group of a key and of each resource in it, by key.

        Resources created without an owner are left out.
        """


class Usages(Protocol):
    """Quotas."""

    def list(self, location: str) -> Sequence[Usage]:
        """The usage of each quota."""


class Cleaning(Protocol):
    """The data that a backend stores on this machine."""

    def stored_items(self) -> Sequence[StoredItem]:
        """The stored data, part by part."""

    def check(self) -> None:
        """Raises ConflictError naming the jobs that have not ended, if there are any."""

    def clean(self) -> None:
        """Removes all of it, after a check."""


@dataclass(frozen=True)
class Facet(Generic[AnyFacet]):
    """A facet: the attribute of a backend, and its name in messages."""

    attribute: str
    label: str

    def of(self, backend: NamedBackend) -> AnyFacet:
        """The backend's facet; CapabilityError naming both if it is missing."""
        found = getattr(backend, self.attribute)
        if found is None:
            name = backend.capabilities.name
            raise CapabilityError(
                f"the {name} backend has no {self.label}",
                code="NotSupported",
                hint="Choose another one with --backend, or do without.",
            )
        return cast("AnyFacet", found)


class _Named(Protocol):
    @property
    def name(self) -> str: ...


class NamedBackend(Protocol):
    """A backend as far as facets need it: it has a name."""

    @property
    def capabilities(self) -> _Named:
        """Contains the name."""


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
