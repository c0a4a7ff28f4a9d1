"""The Backend protocol: the verbs and facets that every backend has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from batchai_magics.models.job_execution import STDOUTERR

if TYPE_CHECKING:
    from batchai_magics.backends.base.capabilities import Capabilities
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
    from batchai_magics.backends.base.file_chunks import Chunk, FileRef
    from batchai_magics.backends.base.resource_requests import (
        JobNeeds,
        Listing,
        NewJob,
        Page,
        Patch,
        Spec,
        StatusSnapshot,
    )
    from batchai_magics.backends.base.storage import Accounts, Groups, Storage
    from batchai_magics.models.job_execution import OutputFile
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.resource_ids import Kind, ResourceId
    from batchai_magics.models.resources import JobResource, Node, Resource


class Backend(Protocol):
    """A place where jobs run: core verbs on resources, and facets, each an object or None.

    The numbered promises are in the package's docstring. Beyond the errors listed here, every method may
    raise UnreachableError where the backend is a service that does not respond, and StorageError where a disk
    fails. Times are aware datetimes in UTC.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What this backend can do, and how often it may be polled."""

    @property
    def storage(self) -> Storage | None:
        """The file shares that its clusters can mount."""

    @property
    def containers(self) -> Storage | None:
        """The blob containers that its clusters can mount."""

    @property
    def accounts(self) -> Accounts | None:
        """The storage accounts that shares and containers belong to."""

    @property
    def groups(self) -> Groups | None:
        """The resource groups that everything belongs to."""

    @property
    def node_commands(self) -> NodeCommands | None:
        """Commands on the nodes of its clusters and jobs."""

    @property
    def preemption(self) -> Preemption | None:
        """The preemption of its low-priority nodes."""

    @property
    def setup_logs(self) -> SetupLogs | None:
        """The output of its clusters' setup tasks."""

    @property
    def telemetry(self) -> Telemetry | None:
        """What the processes of its jobs use of their machines."""

    @property
    def records(self) -> Records | None:
        """The records that its runs keep about themselves."""

    @property
    def cleaning(self) -> Cleaning | None:
        """The data that it stores on this machine, and the removal of it."""

    @property
    def ownership(self) -> Ownership | None:
        """The owner of each of its resources."""

    @property
    def usages(self) -> Usages | None:
        """The usage of its quotas."""

    @property
    def prices(self) -> Prices | None:
        """The prices of its nodes, if they cost money."""

    def host_note(self, job: JobSpec) -> str:
        """What to tell the user of a job whose image nothing here runs: it runs on the host; else nothing.

        Raises:
            CapabilityError: The user named the image (`batchaiNeedsImage`), so the job cannot be created.
        """

    def check(self, job: JobSpec) -> None:
        """Raises what `create` would raise for the description alone; sends and writes nothing.

        Raises:
            CapabilityError: A field that the backend cannot honour.
            SpecError: A value that is impossible here, on whatever cluster.
        """

    def check_needs(self, needs: JobNeeds) -> None:
        """Raises what `create` would raise for the job of these needs on its cluster; writes nothing."""

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

    def create_jobs(self, jobs: Sequence[NewJob]) -> Sequence[JobResource]:
        """Creates jobs as `create` does, together where the engine can; existing identical ones are returned.

        Each job is created wholly or not at all. After an error, some of them may exist.

        Raises:
            The errors of `create`.
        """

    def terminate_jobs(self, jobs: Sequence[ResourceId]) -> None:
        """Asks jobs to stop as `terminate` does, together where the engine can.

        Those that are gone are left out.
        """

    def ensure(self, needs: JobNeeds) -> Sequence[JobResource]:
        """Creates what is missing of what a job needs and stores its files, in one request where possible.

        Returns:
            The latest 50 runs of the job's name (`resnet`, `resnet-2`, …), oldest first.

        Raises:
            CapabilityError: Files are to be stored, and the backend has no shares.
            SpecError: The job of the needs cannot run here; nothing was created or stored.
            ConflictError: A missing resource exceeds a quota; what comes after it is not created.
        """

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

    def update(self, id: ResourceId, patch: Patch) -> Resource:
        """Changes a cluster's scale or a workspace's tags; the patch belongs to the kind of `id`.

        Raises:
            CapabilityError: The patch has a field that the backend cannot honour; nothing was sent.
            ConflictError: The new size exceeds a quota.
            NotFoundError: The resource does not exist.
        """

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

    def nodes(self, id: ResourceId) -> Sequence[Node]:
        """The nodes of a cluster, or those that a job runs on.

        Raises:
            NotFoundError: The cluster or job does not exist.
        """

    def jobs_ahead_of(self, job: JobResource) -> Sequence[ResourceId]:
        """The jobs, of any experiment, that get nodes before this queued one, next job first."""

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
                (`stdout-wk-0.txt`),
            whose lines are in another log too. The chunk of a log that was truncated starts at 0.

        Raises:
            NotFoundError: The job does not exist.
        """

    def reconcile(self) -> None:
        """Starts what can start, and records and ends what a dead process left undone.

        Reading does neither. Changes call it by themselves; whoever follows jobs, runs commands, or serves
        others who only read calls it again and again: it is cheap while there is nothing to do.
        """

    def close(self) -> None:
        """Closes connections and files; jobs keep running."""
