"""The Backend protocol itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from batchai_magics.backends.base.storage import Accounts, Groups, Storage
from batchai_magics.backends.base.values import (
    Capabilities,
    Chunk,
    CommandOutput,
    FileRef,
    OutputFile,
    Spec,
    Usage,
)
from batchai_magics.models.cluster import ClusterPatch
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.job import STDOUTERR
from batchai_magics.models.resources import Node, Resource


class Backend(Protocol):
    """A place where jobs run. See the module for its numbered promises."""

    @property
    def capabilities(self) -> Capabilities:
        """What this backend can and cannot do."""

    @property
    def storage(self) -> Storage:
        """The file shares that its clusters can mount."""

    @property
    def containers(self) -> Storage:
        """The blob containers that its clusters can mount."""

    @property
    def accounts(self) -> Accounts:
        """The storage accounts that shares and containers belong to."""

    @property
    def groups(self) -> Groups:
        """The resource groups that everything belongs to."""

    def create(self, id: ResourceId, spec: Spec) -> Resource:
        """Makes a resource; the kind of `id` and the type of `spec` belong together."""

    def show(self, id: ResourceId) -> Resource:
        """The resource as it stands; NotFoundError when there is none."""

    def list(self, parent: ResourceId, kind: Kind) -> Sequence[Resource]:
        """The resources of a kind directly inside `parent`, oldest first.

        Workspaces: those of the group that `parent` names, whether it exists or not.
        """

    def update(self, id: ResourceId, patch: ClusterPatch) -> Resource:
        """Changes a cluster's scale."""

    def delete(self, id: ResourceId) -> None:
        """Deletes a resource and all inside it; NotFoundError when there is none."""

    def terminate(self, job: ResourceId) -> None:
        """Asks a job to end; nothing happens to one that has ended."""

    def nodes(self, id: ResourceId) -> Sequence[Node]:
        """The nodes of a cluster, or those a job runs on."""

    def files(
        self, job: ResourceId, directory_id: str = STDOUTERR, path: str = "", *, expiry_min: int = 60
    ) -> Sequence[OutputFile]:
        """One level of a job's output directory, sorted by name.

        Their addresses are good for `expiry_min` minutes at least.
        """

    def read(self, file: FileRef, offset: int = 0, limit: int = 1 << 20) -> Chunk:
        """At most `limit` bytes of a file from `offset`."""

    def setup_files(
        self, cluster: ResourceId, path: str = "", *, expiry_min: int = 60
    ) -> Sequence[OutputFile]:
        """One level of what a cluster's setup task wrote, as `files` gives it."""

    def execute(self, id: ResourceId, node_id: str, command: str) -> CommandOutput:
        """Runs a shell command on a node of a cluster or job, in its folder and environment.

        Gives what it writes as it comes, and at last how it ended. Closing the generator ends the command
        with all that it has started. NotFoundError (at once) for a node that is not there.
        """

    def preempt(self, cluster: ResourceId, node_id: str) -> None:
        """Takes a node of a lowpriority cluster away, as Azure could at any time; its job is queued again."""

    def delete_group(self, name: str) -> None:
        """Deletes a resource group with all workspaces and storage accounts in it; jobs are ended first."""

    def usages(self, location: str) -> Sequence[Usage]:
        """What is used of each quota."""
