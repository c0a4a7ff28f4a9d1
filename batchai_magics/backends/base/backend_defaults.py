"""Base classes of backends: default implementations, and the capability check before every change.

The runs of a job have its name and a number.
"""

from __future__ import annotations

import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from batchai_magics.backends.base.capabilities import Capabilities, check_supported
from batchai_magics.backends.base.facets import STORAGE
from batchai_magics.backends.base.file_chunks import Chunk, FileRef
from batchai_magics.backends.base.resource_requests import JobNeeds, NewJob, Patch, Spec, StatusSnapshot
from batchai_magics.errors import ConflictError, NotFoundError
from batchai_magics.models.job_execution import is_process_log
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState

if TYPE_CHECKING:
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
    from batchai_magics.backends.base.protocol import Backend
    from batchai_magics.backends.base.storage import Accounts, Groups, Storage
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.resources import Resource

MAX_RUNS = 50  # runs of a name that a new job is compared with
MAX_EXPERIMENTS = 8  # the newest ones, besides a queued job's own, whose jobs are listed
_RUN = re.compile(r"-(\d+)$")


class BackendDefaults:
    """Defaults: no facets, and methods that are built on the others.

    None of them supports long polling. The errors are those of `Backend`.
    """

    storage: Storage | None = None
    containers: Storage | None = None
    accounts: Accounts | None = None
    groups: Groups | None = None
    node_commands: NodeCommands | None = None
    preemption: Preemption | None = None
    setup_logs: SetupLogs | None = None
    telemetry: Telemetry | None = None
    records: Records | None = None
    ownership: Ownership | None = None
    usages: Usages | None = None
    prices: Prices | None = None
    cleaning: Cleaning | None = None

    def status(
        self: Backend,
        ids: Collection[ResourceId],
        *,
        since: StatusSnapshot | None = None,
        wait_s: float = 0.0,
    ) -> StatusSnapshot:
        """The status of jobs and clusters, with one request for each parent; returns at once."""
        families: dict[tuple[str, Kind], list[ResourceId]] = {}
        for id in ids:
            families.setdefault((id.parent.key, id.kind), []).append(id)
        wanted = {id.key for id in ids}
        found: list[Resource] = []
        for first, *others in families.values():
            with contextlib.suppress(NotFoundError):
                found += self.list(first.parent, first.kind) if others else [self.show(first)]
        return StatusSnapshot({resource.id.key: resource for resource in found if resource.id.key in wanted})

    def tail(
        self: Backend,
        job: ResourceId,
        positions: Mapping[str, int],
        limit: int = 1 << 20,
        *,
        wait_s: float = 0.0,
    ) -> Mapping[str, Chunk]:
        """The new bytes of a job's logs, with one request to list them and one for each; returns at once."""
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

    def names(self: Backend, parent: ResourceId, kind: Kind, prefix: str = "") -> Sequence[str]:
        """The names in `parent` with a prefix, filtered from the complete list."""
        names = [item.id.name for item in self.list(parent, kind)]
        return [name for name in names if name.lower().startswith(prefix.lower())]

    def jobs_ahead_of(self: Backend, job: JobResource) -> Sequence[ResourceId]:
        """The jobs ahead of a queued one on its cluster, by priority and age, next job first.

        Only its own experiment and the newest eight others are searched.
        """
        from batchai_magics.models.job_spec import JobPriority  # who names runs does without the models

        own = job.id.parent
        names = self.names(own.parent, Kind.EXPERIMENT)
        others = [name for name in names if name.lower() != own.name.lower()][-MAX_EXPERIMENTS:]
        listed: list[Resource] = []
        for experiment in (own, *(own.parent.child(Kind.EXPERIMENT, name) for name in others)):
            with contextlib.suppress(NotFoundError):  # deleted meanwhile
                listed += self.list(experiment, Kind.JOB)
        queue = [other for other in listed if isinstance(other, JobResource)]
        queue = [other for other in queue if other.state is ExecutionState.QUEUED and other.id != job.id]
        cluster = job.spec.cluster.id.lower()
        queue = [other for other in queue if other.spec.cluster.id.lower() == cluster]
        order = (JobPriority.HIGH, JobPriority.NORMAL, JobPriority.LOW)

        def queue_key(queued: JobResource) -> tuple[int, object]:
            return order.index(queued.spec.scheduling_priority), queued.provisioning.created

        return [other.id for other in sorted(queue, key=queue_key) if queue_key(other) < queue_key(job)]

    def create_jobs(self: Backend, jobs: Sequence[NewJob]) -> Sequence[JobResource]:
        """Creates jobs, with one request for each."""
        made = [self.create(job.id, job.spec, owner=job.owner, records=job.records) for job in jobs]
        return cast("list[JobResource]", made)

    def terminate_jobs(self: Backend, jobs: Sequence[ResourceId]) -> None:
        """Asks jobs to stop, with one request for each; those that are gone are left out."""
        for job in jobs:
            with contextlib.suppress(NotFoundError):
                self.terminate(job)

    def ensure(self: Backend, needs: JobNeeds) -> Sequence[JobResource]:
        """Creates what is missing of what a job needs, with one request for each part."""
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

    def host_note(self, job: JobSpec) -> str:
        """Nothing: the default runs every image."""
        return ""

    def check(self: Backend, job: JobSpec) -> None:
        """Checks a job against the capabilities."""
        check_supported(self.capabilities, job)

    def check_needs(self, needs: JobNeeds) -> None:
        """Nothing: the default checks a job where it is created."""

    def reconcile(self) -> None:
        """Nothing: a complete service reconciles itself."""

    def close(self) -> None:
        """Releases nothing: the default holds no resources."""


class BackendBase(BackendDefaults, ABC):
    """Base of our backends: a spec or patch beyond the capabilities never reaches `_create` or `_update`."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this backend can do, and how often it may be polled."""

    def create(
        self, id: ResourceId, spec: Spec, *, owner: str = "", records: Mapping[str, str] | None = None
    ) -> Resource:
        """Checks the spec against the capabilities, then creates the resource; see `Backend.create`.

        Raises:
            CapabilityError: The spec has a field that the backend cannot honour; nothing was sent.
        """
        check_supported(self.capabilities, spec)
        return self._create(id, spec, owner, records or {})

    def update(self, id: ResourceId, patch: Patch) -> Resource:
        """Checks the patch against the capabilities, then updates the resource; see `Backend.update`.

        Raises:
            CapabilityError: The patch has a field that the backend cannot honour; nothing was sent.
        """
        check_supported(self.capabilities, patch)
        return self._update(id, patch)

    @abstractmethod
    def _create(self, id: ResourceId, spec: Spec, owner: str, records: Mapping[str, str]) -> Resource:
        """Creates a supported resource."""

    @abstractmethod
    def _update(self, id: ResourceId, patch: Patch) -> Resource:
        """Applies a supported update."""


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
    """Suppresses the ConflictError of a creation if another process has created the resource."""
    try:
        yield
    except ConflictError:
        if not _exists(backend, id):
            raise


def _exists(backend: Backend, id: ResourceId) -> bool:
    try:
        backend.show(id)
    except NotFoundError:
        return False
    return True


def runs(backend: Backend, job: ResourceId) -> list[JobResource]:
    """The latest 50 runs of a job's name, oldest first."""
    names = run_names(backend.names(job.parent, Kind.JOB, job.name), job.name)[-MAX_RUNS:]
    ids = [job.parent.child(Kind.JOB, name) for name in names]
    snapshot = backend.status(ids)
    return [found for id in ids if isinstance(found := snapshot.of(id), JobResource)]


def run_names(names: Sequence[str], name: str) -> list[str]:
    """The runs of a named job among these names, oldest first: `resnet`, `resnet-2` and so on."""
    wanted = name.lower()
    runs = [each for each in names if wanted in (each.lower(), first_run(each).lower())]
    return sorted(runs, key=lambda run: run_number(run, name))


def first_run(name: str) -> str:
    """A run's name without its number: `resnet` for `resnet-2`."""
    return _RUN.sub("", name)


def run_number(run: str, name: str) -> int:
    """The number of a run of `name`, from 1: `resnet-50` is run 1 of itself, and run 50 of `resnet`."""
    return 1 if run.lower() == name.lower() else int(run[len(name) + 1 :])
