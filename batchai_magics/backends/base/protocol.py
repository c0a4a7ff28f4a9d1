"""The Backend protocol itself."""

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
        SetupLogs,
        Telemetry,
        Usages,
    )
    from batchai_magics.backends.base.file_chunks import Chunk, FileRef
    from batchai_magics.backends.base.resource_requests import (
        JobNeeds,
        Listing,
        Page,
        Patch,
        Spec,
        StatusSnapshot,
    )
    from batchai_magics.backends.base.storage import Accounts, Groups, Storage
    from batchai_magics.models.job_execution import OutputFile
    from batchai_magics.models.resource_ids import Kind, ResourceId
    from batchai_magics.models.resources import JobResource, Node, Resource


class Backend(Protocol):
    """A place where jobs run: core methods, and facets that are objects or None.

    `facets` has a name for each facet, for error messages. See the package for the numbered promises.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What this backend supports."""

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
        """Commands on its nodes."""

    @property
    def preemption(self) -> Preemption | None:
        """Preemption of its nodes."""

    @property
    def setup_logs(self) -> SetupLogs | None:
        """The output of its clusters' setup tasks."""

    @property
    def telemetry(self) -> Telemetry | None:
        """The resource use of its jobs' processes."""

    @property
    def cleaning(self) -> Cleaning | None:
        """Removal of the data that it stores on this machine."""

    @property
    def ownership(self) -> Ownership | None:
        """Who created which of its resources."""

    @property
    def usages(self) -> Usages | None:
        """The usage of its quotas."""

    def create(self, id: ResourceId, spec: Spec, *, owner: str = "") -> Resource:
        """Creates a resource; the kind of `id` and the type of `spec` must match.

        A backend with the facet `ownership` records the owner in the transaction that creates the resource.
        """

    def ensure(self, needs: JobNeeds) -> Sequence[JobResource]:
        """Creates what a job needs and is missing and stores its files, if possible in one request.

        Returns the latest fifty runs of the job's name (`resnet`, `resnet-2` and so on), oldest first.
        """

    def show(self, id: ResourceId) -> Resource:
        """The current resource.

        Raises:
            NotFoundError: It does not exist.
        """

    def list(self, parent: ResourceId, kind: Kind, page: Page | None = None) -> Listing:
        """The resources of a kind directly in `parent`, oldest first: all, or a page of them.

        For workspaces, those of the group that `parent` names, whether it exists or not.
        """

    def names(self, parent: ResourceId, kind: Kind, prefix: str = "") -> Sequence[str]:
        """The names of the resources of a kind directly in `parent` with this prefix, oldest first.

        Prefixes are matched case-insensitively. The resources themselves are not read.
        """

    def update(self, id: ResourceId, patch: Patch) -> Resource:
        """Changes a cluster's scale or a workspace's tags; the kind of `id` and the patch must match."""

    def delete(self, id: ResourceId) -> None:
        """Deletes a resource and everything in it; NotFoundError if it does not exist."""

    def terminate(self, job: ResourceId) -> None:
        """Asks a job to stop; no effect on one that has ended."""

    def nodes(self, id: ResourceId) -> Sequence[Node]:
        """The nodes of a cluster, or those a job runs on."""

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
        """Lists a folder of a job's output directory, sorted by name, up to `limit` entries.

        `stdouterr` has its logs, `workdir` the working directories of its processes, one per node. URLs are
        valid for at least `expiry_min` minutes.
        """

    def read(self, file: FileRef, offset: int = 0, limit: int = 1 << 20) -> Chunk:
        """At most `limit` bytes of a file from `offset`.

        Raises:
            NotFoundError: The path is not a regular file.
        """

    def status(
        self, ids: Collection[ResourceId], *, since: StatusSnapshot | None = None, wait_s: float = 0.0
    ) -> StatusSnapshot:
        """Jobs and clusters as `show` returns them, in one request; missing ones are left out.

        Args:
            ids: Jobs and clusters, in any mix.
            since: A previous snapshot; with `wait_s`, the call may block until something differs from it.
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
        """The new bytes of a job's logs, by path in its directory `stdouterr`, in one request.

        `positions` has the offset up to which each log is known; unlisted logs are read from the start. At
        most `limit` bytes of each log are returned. Logs without new bytes are left out, and so are those of
        single processes (`stdout-wk-0.txt`), whose content is also in another log. A log that became shorter
        was truncated: its chunk begins at 0. With `wait_s`, the call may block that long for new bytes or the
        job's end, if the backend's pace allows it.
        """

    def close(self) -> None:
        """Releases connections and files; jobs keep running."""
