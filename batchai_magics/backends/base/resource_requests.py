"""Requests about resources and their results: specs, patches, pages, statuses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from batchai_magics.models.cluster_spec import ClusterPatch, ClusterSpec
    from batchai_magics.models.file_server import FileServerSpec
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.resource_ids import ResourceId
    from batchai_magics.models.resources import ExperimentSpec, Resource, WorkspacePatch, WorkspaceSpec

# as strings: nothing that only lists resources imports these
Spec: TypeAlias = "WorkspaceSpec | ExperimentSpec | ClusterSpec | JobSpec | FileServerSpec"
Patch: TypeAlias = "ClusterPatch | WorkspacePatch"


@dataclass(frozen=True)
class Page:
    """A page of a list: at most `size` resources after those of the previous page."""

    size: int | None = None
    after: str = ""  # `next.after` of the previous page; empty for the first one


class Listing(tuple["Resource", ...]):
    """Resources, oldest first; `next` is the next page, None after the last one."""

    next: Page | None

    def __new__(cls, resources: Iterable[Resource] = (), next: Page | None = None) -> Listing:
        """The resources of one page."""
        made = super().__new__(cls, resources)
        made.next = next
        return made


@dataclass(frozen=True)
class StatusSnapshot:
    """The status of jobs and clusters, by `id.key`; missing ones are left out.

    `state` identifies the snapshot to the backend, where it supports long polling.
    """

    states: Mapping[str, Resource]
    state: str = field(default="", compare=False)

    def of(self, id: ResourceId) -> Resource | None:
        """The resource; None if it did not exist."""
        return self.states.get(id.key)


@dataclass(frozen=True)
class JobNeeds:
    """What a new job needs: resources, created if missing, and files on a share.

    The resources are in the order of creation; existing ones are left unchanged. `share` is the share that
    the cluster mounts at the path of the job's scripts; `files` maps paths on it to content.
    """

    job: ResourceId
    resources: Sequence[tuple[ResourceId, Spec]] = ()
    share: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
