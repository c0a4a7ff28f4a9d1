"""Base classes of backends: default implementations, and the capability check before every change."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from batchai_magics.backends.base.capabilities import Capabilities, check_supported
from batchai_magics.backends.base.file_chunks import Chunk, FileRef
from batchai_magics.backends.base.resource_requests import JobNeeds, NewJob, Patch, Spec, StatusSnapshot
from batchai_magics.errors import NotFoundError
from batchai_magics.models.job_execution import is_process_log
from batchai_magics.models.resource_ids import Kind, ResourceId

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
    from batchai_magics.models.resources import JobResource, Resource


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
        return default_status(self, ids)

    def tail(
        self: Backend,
        job: ResourceId,
        positions: Mapping[str, int],
        limit: int = 1 << 20,
        *,
        wait_s: float = 0.0,
    ) -> Mapping[str, Chunk]:
        """The new bytes of a job's logs, with one request to list them and one for each; returns at once."""
        return default_tail(self, job, positions, limit)

    def names(self: Backend, parent: ResourceId, kind: Kind, prefix: str = "") -> Sequence[str]:
        """The names in `parent` with a prefix, filtered from the complete list."""
        names = [item.id.name for item in self.list(parent, kind)]
        return [name for name in names if name.lower().startswith(prefix.lower())]

    def jobs_ahead_of(self: Backend, job: JobResource) -> Sequence[ResourceId]:
        """The jobs ahead of a queued one, from the lists of its experiment and of a few others."""
        from batchai_magics.backends.base.job_defaults import default_jobs_ahead_of  # it loads the models

        return default_jobs_ahead_of(self, job)

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
        from batchai_magics.backends.base.job_defaults import default_ensure  # it loads the models

        return default_ensure(self, needs)

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


def default_status(backend: Backend, ids: Collection[ResourceId]) -> StatusSnapshot:
    """`Backend.status` built on `show`, or on `list` where several ids have one parent."""
    families: dict[tuple[str, Kind], list[ResourceId]] = {}
    for id in ids:
        families.setdefault((id.parent.key, id.kind), []).append(id)
    wanted = {id.key for id in ids}
    found: list[Resource] = []
    for first, *others in families.values():
        with contextlib.suppress(NotFoundError):
            found += backend.list(first.parent, first.kind) if others else [backend.show(first)]
    return StatusSnapshot({resource.id.key: resource for resource in found if resource.id.key in wanted})


def default_tail(
    backend: Backend, job: ResourceId, positions: Mapping[str, int], limit: int
) -> Mapping[str, Chunk]:
    """`Backend.tail` built on `files` and `read`: path → chunk with at most `limit` bytes.

    Raises:
        NotFoundError: The job does not exist.
    """
    chunks: dict[str, Chunk] = {}
    for listed in backend.files(job):
        position = positions.get(listed.path, 0)
        if not listed.is_file or listed.size_bytes == position or is_process_log(listed.path):
            continue
        file = FileRef(job, listed.path)
        chunk = backend.read(file, position, limit)
        if chunk.size < position:
            chunk = backend.read(file, 0, limit)
        if chunk.data or chunk.offset != position:
            chunks[listed.path] = chunk
    return chunks
