"""Arguments and results of a backend's methods: specs and patches, pages, status, a job's needs."""

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
    """A page of a list."""

    size: int | None = None  # the maximum number of resources; None for all
    after: str = ""  # where the page starts: opaque text from `Listing.next`; empty for the first page


class Listing(tuple["Resource", ...]):
    """Resources, oldest first; `next` is the page after these, None at the end."""

    next: Page | None

    def __new__(cls, resources: Iterable[Resource] = (), next: Page | None = None) -> Listing:
        """Creates the list of one page."""
        made = super().__new__(cls, resources)
        made.next = next
        return made


@dataclass(frozen=True)
class StatusSnapshot:
    """The status of jobs and clusters at one time; missing ones are left out."""

    states: Mapping[str, Resource]  # `id.key` → resource
    # Opaque text that identifies the snapshot to a backend with long polling; else empty
    state: str = field(default="", compare=False)

    def of(self, id: ResourceId) -> Resource | None:
        """The resource of an id, or None if it did not exist."""
        return self.states.get(id.key)


@dataclass(frozen=True)
class NewJob:
    """A job to create: its id, its description, the record files that it starts with, and who creates it."""

    id: ResourceId
    spec: JobSpec
    records: Mapping[str, str] = field(default_factory=dict, repr=False)
    owner: str = ""


@dataclass(frozen=True)
class JobNeeds:
    """What a new job needs: resources, created unless they exist, and files on a share."""

    job: ResourceId  # the id that the job is to have
    # Ids and specs in the order of creation; an existing resource is left as it is
    resources: Sequence[tuple[ResourceId, Spec]] = ()
    share: str = ""  # the share that the cluster mounts at the path of the job's scripts; empty without files
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # path on the share → content
    spec: JobSpec | None = None  # the job, if it is to be checked before anything is created
