"""The Backend protocol: the verbs and facets that every backend has.

The runs of a job have its name and a number.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from batchai_magics.backends.base.capabilities import (
    Capabilities,
    JobNeeds,
    NewJob,
    Patch,
    Spec,
    StatusSnapshot,
    check_supported,
)
from batchai_magics.backends.base.file_chunks import Chunk, FileRef
from batchai_magics.errors import CapabilityError, ConflictError, NotFoundError
from batchai_magics.models.job_execution import STDOUTERR, is_process_log
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState

if TYPE_CHECKING:
    from batchai_magics.backends.base.capabilities import Listing, Page
    from batchai_magics.backends.base.facets import (
        Cleaning,
        NodeCommands,
        Ownership,
        Preemption,
        Prices,
        Records,
        SetupLogs,
        Telemetry,
        Usages,
    )
    from batchai_magics.backends.base.storage import Accounts, Groups, Storage
    from batchai_magics.models.job_execution import OutputFile
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.resources import Node, Resource

MAX_RUNS = 50  # runs of a name that a new job is compared with
MAX_EXPERIMENTS = 8  # the newest ones, besides a queued job's own, whose jobs are listed
_RUN = re.compile(r"-(\d+)$")


class Backend(Protocol):
    """A service or engine that runs jobs: core verbs on resources, and facets, each an object or None.

    The numbered promises are in the package's docstring. Beyond the errors listed here, every method may
    raise UnreachableError where the backend is a service that does not respond, and StorageError where a disk
    fails. Times are aware datetimes in UTC. A backend derives from this class, which implements what can be
    built on other methods, without long polling; and before every change, the one check of the capabilities.
    """

    capabilities: Capabilities  # what it can do, and how often it may be polled
    storage: Storage | None = None  # the file shares that its clusters can mount
    containers: Storage | None = None  # the blob containers that its clusters can mount
    accounts: Accounts | None = None  # the storage accounts that shares and containers belong to
    groups: Groups | None = None  # the resource groups that everything belongs to
    node_commands: NodeCommands | None = None  # commands on the nodes of its clusters and jobs
    preemption: Preemption | None = None  # the preemption of its low-priority nodes
    setup_logs: SetupLogs | None = None  # the output of its clusters' setup tasks
    telemetry: Telemetry | None = None  # what the processes of its jobs use of their machines
    records: Records | None = None  # the records that its runs keep about themselves
    ownership: Ownership | None = None  # the owner of each of its resources
    usages: Usages | None = None  # the usage of its quotas
    prices: Prices | None = None  # the prices of its nodes, if they cost money
    cleaning: Cleaning | None = None  # the data that it stores on this machine, and the removal of it

    def host_note(self, job: JobSpec) -> str:
        """A note for the user if the job runs on the host because nothing here runs its image; else empty.

        Raises:
            CapabilityError: The user named the image (`batchaiNeedsImage`), so the job cannot be created.
        """
        return ""

    def check(self, job: JobSpec) -> None:
        """Raises the error that `create` would raise for the spec alone; sends and writes nothing.

        Raises:
            CapabilityError: A field that the backend cannot honour.
            SpecError: A value that is impossible here on any cluster.
        """
        check_supported(self.capabilities, job)

    def check_needs(self, needs: JobNeeds) -> None:
        """Raises the error that `create` would raise for the job on its cluster; writes nothing."""
        return  # by default, only `create` checks it

    def create(
        self, id: ResourceId, spec: Spec, *, owner: str = "", records: Mapping[str, str] | None = None
    ) -> Resource:
        """Creates a resource, or returns the existing one if its spec is identical.

        Args:
            id: The id of the new resource; its parent must exist.
            spec: The description, of the type that belongs to the kind of `id`.
            owner: Who creates it, recorded in the same transaction by a backend with the facet `ownership`.
            records: Name → text of the record files that a job starts with, stored atomically with it by a
                backend with the facet `records`, and no part of what makes a job identical.

        Returns:
            The resource. Nothing waits: a job may still be queued, a cluster's nodes still prepared.

        Raises:
            CapabilityError: The spec has a field that the backend cannot honour; nothing was sent.
            ConflictError: A different resource has this name, or a quota is exceeded.
            NotFoundError: The parent, or a resource that the spec refers to, does not exist.
            SpecError: A value of the spec is impossible here, such as more nodes than its cluster can have.
        """
        check_supported(self.capabilities, spec)
        return self._create(id, spec, owner, records or {})

    def create_jobs(self, jobs: Sequence[NewJob]) -> Sequence[JobResource]:
        """Creates jobs as `create` does, together where the engine can; existing identical ones are returned.

        Each job is created wholly or not at all. After an error, some of them may exist.

        Raises:
            The errors of `create`.
        """
        created = [self.create(job.id, job.spec, owner=job.owner, records=job.records) for job in jobs]
        return cast("list[JobResource]", created)

    def ensure(self, needs: JobNeeds) -> Sequence[JobResource]:
        """Creates what is missing of what a job needs and stores its files, in one request where possible.

        Returns:
            The latest 50 runs of the job's name (`resnet`, `resnet-2`, …), oldest first.

        Raises:
            CapabilityError: Files are to be stored, and the backend has no shares.
            SpecError: The job of the needs cannot run here; nothing was created or stored.
            ConflictError: A missing resource exceeds a quota; what comes after it is not created.
        """
        self.check_needs(needs)
        for id, spec in missing(self, needs):
            with ignoring_existing(self, id):
                self.create(id, spec)
        if needs.share:
            storage: Storage = STORAGE.of(self)
            storage.make(needs.share)
            if needs.files:
                storage.upload(needs.share, needs.files)
        return runs(self, needs.job)

    def show(self, id: ResourceId) -> Resource:
        """The current state of a resource.

        Raises:
            NotFoundError: It does not exist, or its parent does not; the message names the outermost missing
                one.
        """

    def list(self, parent: ResourceId, kind: Kind, page: Page | None = None) -> Listing:
        """The resources of a kind directly inside `parent`, oldest first.

        Args:
            parent: A workspace or experiment; for workspaces, an id in the resource group, which need not
                exist.
            kind: The kind of resource to list.
            page: Where to start and how many to return; None for all.

        Raises:
            NotFoundError: The parent does not exist.
        """

    def names(self, parent: ResourceId, kind: Kind, prefix: str = "") -> Sequence[str]:
        """The names of the resources of a kind directly inside `parent`, oldest first, without reading them.

        Args:
            parent: As for `list`.
            kind: The kind of resource to list.
            prefix: How the names begin, matched case-insensitively; empty for all.

        Raises:
            NotFoundError: The parent does not exist.
        """
        names = [item.id.name for item in self.list(parent, kind)]
        return [name for name in names if name.lower().startswith(prefix.lower())]

    def update(self, id: ResourceId, patch: Patch) -> Resource:
        """Changes a cluster's scale or a workspace's tags; the patch belongs to the kind of `id`.

        Raises:
            CapabilityError: The patch has a field that the backend cannot honour; nothing was sent.
            ConflictError: The new size exceeds a quota.
            NotFoundError: The resource does not exist.
        """
        check_supported(self.capabilities, patch)
        return self._update(id, patch)

    def delete(self, id: ResourceId) -> None:
        """Deletes a resource and everything inside it; jobs are terminated first.

        Raises:
            ConflictError: Something that is not inside it uses it.
            NotFoundError: It does not exist.
        """

    def terminate(self, job: ResourceId, *, now: bool = False) -> None:
        """Requests the end of a job, without waiting for it; no effect on a job that has ended.

        Its processes get SIGTERM, and SIGKILL when the grace of the job is over. Repeating the request has no
        effect, except with `now`: then a job that was asked to end before is killed, where the backend can.

        Raises:
            NotFoundError: The job does not exist.
        """

    def terminate_jobs(self, jobs: Sequence[ResourceId]) -> None:
        """Asks jobs to stop as `terminate` does, together where the engine can.

        Those that are gone are left out.
        """
        for job in jobs:
            with contextlib.suppress(NotFoundError):
                self.terminate(job)

    def nodes(self, id: ResourceId) -> Sequence[Node]:
        """The nodes of a cluster, or those that a job runs on.

        Raises:
            NotFoundError: The cluster or job does not exist.
        """

    def jobs_ahead_of(self, job: JobResource) -> Sequence[ResourceId]:
        """The jobs, of any experiment, that get nodes before this queued one, next job first."""
        experiment_id = job.id.parent
        names = self.names(experiment_id.parent, Kind.EXPERIMENT)
        others = [name for name in names if name.lower() != experiment_id.name.lower()][-MAX_EXPERIMENTS:]
        other_ids = [experiment_id.parent.child(Kind.EXPERIMENT, name) for name in others]
        listed: list[Resource] = []
        for experiment in (experiment_id, *other_ids):
            with contextlib.suppress(NotFoundError):  # deleted meanwhile
                listed += self.list(experiment, Kind.JOB)
        queue = [queued for queued in listed if isinstance(queued, JobResource)]
        queue = [queued for queued in queue if queued.state is ExecutionState.QUEUED and queued.id != job.id]
        cluster = job.spec.cluster.id.lower()
        queue = [queued for queued in queue if queued.spec.cluster.id.lower() == cluster]

        def queue_key(queued: JobResource) -> tuple[int, object]:
            return queued.spec.scheduling_priority.rank, queued.provisioning.created

        return [queued.id for queued in sorted(queue, key=queue_key) if queue_key(queued) < queue_key(job)]

    def files(
        self,
        job: ResourceId,
        directory_id: str = STDOUTERR,
        path: str = "",
        *,
        expiry_min: int = 60,
        limit: int | None = None,
    ) -> Sequence[OutputFile]:
        """One level of a job's output directory, sorted by name.

        Args:
            job: The job.
            directory_id: An id of the job's output directories; `stdouterr` has its logs, `workdir` the
                working directories of its processes, one for each node.
            path: A folder below the directory, with `/`; empty for the directory itself.
            expiry_min: Minutes that the download addresses are valid for, at least.
            limit: The maximum number of entries; None for all.

        Raises:
            NotFoundError: There is no such job, output directory or folder.
            StorageError: The path leaves the directory, by `..` or by a link.
        """

    def read(self, file: FileRef, offset: int = 0, limit: int = 1 << 20) -> Chunk:
        """At most `limit` bytes of a file from the byte `offset` on.

        A file that does not exist yet is an empty chunk of size 0; so is one read at its end.

        Raises:
            NotFoundError: There is no such job or output directory, or the path is not a regular file.
            StorageError: The path leaves the directory, by `..` or by a link.
        """

    def status(
        self, ids: Collection[ResourceId], *, since: StatusSnapshot | None = None, wait_s: float = 0.0
    ) -> StatusSnapshot:
        """Jobs and clusters as `show` returns them, in one request; missing ones are left out.

        Args:
            ids: Jobs and clusters, in any mix.
            since: A previous snapshot of the same ids, which may be returned again while nothing differs from
                it; with `wait_s`, the call may block until something does.
            wait_s: Seconds to block at most, where the backend supports long polling.
        """
        families: dict[tuple[str, Kind], list[ResourceId]] = {}
        for id in ids:
            families.setdefault((id.parent.key, id.kind), []).append(id)
        keys = {id.key for id in ids}
        resources: list[Resource] = []
        for first, *others in families.values():
            with contextlib.suppress(NotFoundError):
                resources += self.list(first.parent, first.kind) if others else [self.show(first)]
        return StatusSnapshot({item.id.key: item for item in resources if item.id.key in keys})

    def tail(
        self,
        job: ResourceId,
        positions: Mapping[str, int],
        limit: int = 1 << 20,
        *,
        wait_s: float = 0.0,
    ) -> Mapping[str, Chunk]:
        """The new bytes of all logs of a job, in one request.

        Args:
            job: The job.
            positions: Path in the directory `stdouterr` → bytes that the caller has; an unlisted log starts
                at 0.
            limit: The maximum number of bytes per log.
            wait_s: Seconds to block at most until there are new bytes or the job has ended, where the backend
                supports long polling.

        Returns:
            Path → chunk, without the logs that have no new byte and those of single processes
            (`stdout-wk-0.txt`), whose lines are in another log too. The chunk of a log that was truncated
            starts at 0.

        Raises:
            NotFoundError: The job does not exist.
        """
        chunks: dict[str, Chunk] = {}
        for listed in self.files(job):
            position = positions.get(listed.path, 0)
            if not listed.is_file or listed.size_bytes == position or is_process_log(listed.path):
                continue
            file = FileRef(job, listed.path)
            chunk = self.read(file, position, limit)
            if chunk.size < position:
                chunk = self.read(file, 0, limit)
            if chunk.data or chunk.offset != position:
                chunks[listed.path] = chunk
        return chunks

    def reconcile(self) -> None:
        """Starts jobs that can start, and finishes and records the changes that a dead process began.

        Methods that read do neither; methods that change something call it. A process that follows jobs, runs
        commands, or serves clients calls it repeatedly: it is cheap while there is nothing to do.
        """
        return  # a complete service does this without being asked

    def close(self) -> None:
        """Closes connections and files; jobs keep running."""
        return

    def _create(self, id: ResourceId, spec: Spec, owner: str, records: Mapping[str, str]) -> Resource:
        """Creates a supported resource."""

    def _update(self, id: ResourceId, patch: Patch) -> Resource:
        """Applies a supported update."""


AnyFacet = TypeVar("AnyFacet")


@dataclass(frozen=True)
class Facet(Generic[AnyFacet]):
    """A facet: the attribute of a backend that holds it, and its name in messages."""

    attribute: str
    label: str

    def of(self, backend: Backend) -> AnyFacet:
        """The facet of a backend.

        Raises:
            CapabilityError: The backend has none; the message names both.
        """
        facet = getattr(backend, self.attribute)
        if facet is None:
            name = backend.capabilities.name
            raise CapabilityError(
                f"the {name} backend has no {self.label}",
                code="NotSupported",
                hint="Choose another one with --backend, or do without.",
            )
        return cast("AnyFacet", facet)


def on_first_use(make: Callable[[Any], AnyFacet]) -> AnyFacet:
    """An attribute of a backend that is created when it is first read."""
    return cast("AnyFacet", cached_property(make))


STORAGE: Facet[Storage] = Facet("storage", "file shares")
CONTAINERS: Facet[Storage] = Facet("containers", "blob containers")
ACCOUNTS: Facet[Accounts] = Facet("accounts", "storage accounts")
GROUPS: Facet[Groups] = Facet("groups", "resource groups")
NODE_COMMANDS: Facet[NodeCommands] = Facet("node_commands", "commands on nodes")
PREEMPTION: Facet[Preemption] = Facet("preemption", "preemptible nodes")
SETUP_LOGS: Facet[SetupLogs] = Facet("setup_logs", "logs of setup tasks")
PRICES: Facet[Prices] = Facet("prices", "prices")
USAGES: Facet[Usages] = Facet("usages", "quotas")
TELEMETRY: Facet[Telemetry] = Facet("telemetry", "telemetry of jobs")
RECORDS: Facet[Records] = Facet("records", "records of runs")
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
    RECORDS,
    USAGES,
    PRICES,
    OWNERSHIP,
    CLEANING,
)


def missing(backend: Backend, needs: JobNeeds) -> list[tuple[ResourceId, Spec]]:
    """The needed resources that do not exist; parents of an existing resource are not looked up."""
    existing: list[str] = []
    for id, _ in reversed(needs.resources):
        if not any(key.startswith(f"{id.key}/") for key in existing) and _exists(backend, id):
            existing.append(id.key)
    return [
        (id, spec)
        for id, spec in needs.resources
        if not any(f"{key}/".startswith(f"{id.key}/") for key in existing)
    ]


@contextlib.contextmanager
def ignoring_existing(backend: Backend, id: ResourceId) -> Iterator[None]:
    """Suppresses the ConflictError of a creation if the resource exists: another process has created it."""
    try:
        yield
    except ConflictError:
        if not _exists(backend, id):
            raise


def _exists(backend: Backend, id: ResourceId) -> bool:
    try:
        if id.kind is Kind.CLUSTER:  # to show it, all of its nodes would be read
            return id.name.lower() in map(str.lower, backend.names(id.parent, id.kind, id.name))
        backend.show(id)
    except NotFoundError:
        return False
    return True


def runs(backend: Backend, job: ResourceId) -> list[JobResource]:
    """The latest 50 runs of a job's name, oldest first."""
    names = run_names(backend.names(job.parent, Kind.JOB, job.name), job.name)[-MAX_RUNS:]
    if not names:
        return []
    ids = [job.parent.child(Kind.JOB, name) for name in names]
    snapshot = backend.status(ids)
    return [run for id in ids if isinstance(run := snapshot.of(id), JobResource)]


def run_names(names: Sequence[str], name: str) -> list[str]:
    """The runs of a named job among these names, oldest first: `resnet`, `resnet-2` and so on."""
    key = name.lower()
    runs = [run for run in names if key in (run.lower(), first_run(run).lower())]
    return sorted(runs, key=lambda run: run_number(run, name))


def first_run(name: str) -> str:
    """A run's name without its number: `resnet` for `resnet-2`."""
    return _RUN.sub("", name)


def run_number(run: str, name: str) -> int:
    """The number of a run of `name`, from 1: `resnet-50` is run 1 of itself, and run 50 of `resnet`."""
    return 1 if run.lower() == name.lower() else int(run[len(name) + 1 :])
