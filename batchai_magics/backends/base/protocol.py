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
    """A place where jobs run: a core of verbs, and facets that are objects or None.

    `facets` has a name for each facet that says what is missing. See the package for the numbered promises.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What this backend can and cannot do."""

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
        """Nodes of it that can be taken away."""

    @property
    def setup_logs(self) -> SetupLogs | None:
        """What the setup tasks of its clusters wrote."""

    @property
    def telemetry(self) -> Telemetry | None:
        """What the processes of its jobs use of their machines."""

    @property
    def cleaning(self) -> Cleaning | None:
        """What it keeps on this machine, and the removal of that."""

    @property
    def ownership(self) -> Ownership | None:
        """Who created which of its resources."""

    @property
    def usages(self) -> Usages | None:
        """What is used of its quotas."""

    def create(self, id: ResourceId, spec: Spec, *, owner: str = "") -> Resource:
        """Makes a resource; the kind of `id` and the type of `spec` belong together.

        A backend with the facet `ownership` records the owner in the transaction that creates the resource.
        """

    def ensure(self, needs: JobNeeds) -> Sequence[JobResource]:
        """Creates what is missing of what a job needs and stores its files, in one request where it can.

        Gives the runs of the job's name (`resnet`, `resnet-2` and so on), oldest first: the latest fifty.
        """

    def show(self, id: ResourceId) -> Resource:
        """The current resource.

        Raises:
            NotFoundError: It does not exist.
        """

    def list(self, parent: ResourceId, kind: Kind, page: Page | None = None) -> Listing:
        """The resources of a kind directly inside `parent`, oldest first: all, or a page of them.

        Workspaces: those of the group that `parent` names, whether it exists or not.
        """

    def names(self, parent: ResourceId, kind: Kind, prefix: str = "") -> Sequence[str]:
        """The names of the resources of a kind directly inside `parent` that begin so, oldest first.

        Prefixes are matched case-insensitively. The resources themselves are not read.
        """

    def update(self, id: ResourceId, patch: Patch) -> Resource:
        """Changes a cluster's scale or a workspace's tags; the kind of `id` and the patch belong together."""

    def delete(self, id: ResourceId) -> None:
        """Deletes a resource and all inside it; NotFoundError when there is none."""

    def terminate(self, job: ResourceId) -> None:
        """Asks a job to end; nothing happens to one that has ended."""

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
        """One level of a job's output directory, sorted by name: all of it, or the first `limit` entries.

        `stdouterr` has its logs, `workdir` the working directories of its processes, one for each node.
        The addresses are good for `expiry_min` minutes at least.
        """

    def read(self, file: FileRef, offset: int = 0, limit: int = 1 << 20) -> Chunk:
        """At most `limit` bytes of a file from `offset`.

        Raises:
            NotFoundError: There is no regular file of that path.
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
        """The new bytes of a job's logs, by path in its directory `stdouterr`, in one question.

        `positions` says how far each is known; a log that it does not name is not known at all. Of each log
        at most `limit` bytes are given, and logs without any new byte are left out, as are those of one
        process (`stdout-wk-0.txt`), which another log holds too. One that is shorter than is known was cut:
        its chunk begins at 0. With `wait_s` it may wait so long, if the pace allows it,
        for new bytes or the job's end.
        """

    def close(self) -> None:
        """Releases connections and files; jobs keep running."""
