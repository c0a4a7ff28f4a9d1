"""What is asked of a backend about resources and what it answers: specs, patches, pages, states."""

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

# Texts: who only looks at what there is loads none of these.
Spec: TypeAlias = "WorkspaceSpec | ExperimentSpec | ClusterSpec | JobSpec | FileServerSpec"
Patch: TypeAlias = "ClusterPatch | WorkspacePatch"


@dataclass(frozen=True)
class Page:
    """A part of a list: at most `size` resources after those that the page before has told."""

    size: int | None = None
    after: str = ""  # what `next` of the page before says; empty for the first one


class Listing(tuple["Resource", ...]):
    """Resources, oldest first; `next` is the page after these, None when there is none."""

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
        """The resource, or None when it was not there."""
        return self.states.get(id.key)


@dataclass(frozen=True)
class JobNeeds:
    """What a new job needs: resources, which are created where they are missing, and files on a share.

    The resources are in the order in which they are created; one that is there is left as it is. `share` is
    the share that the cluster mounts at the path of the job's scripts; `files` maps paths on it to content.
    """

    job: ResourceId
    resources: Sequence[tuple[ResourceId, Spec]] = ()
    share: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
