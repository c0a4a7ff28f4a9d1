"""What every operation of the service works with: a home and an engine."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.backends.base import api_errors
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.service import stored_descriptions
from batchai_magics.backends.service.repository import GROUP, OWNER, Record, Repository
from batchai_magics.backends.service.runner import (
    ClusterRef,
    EngineFacts,
    JobGroup,
    Run,
    Runner,
    RunStatus,
    Scale,
)
from batchai_magics.errors import DISK_FULL, StorageError, is_disk_full
from batchai_magics.launch.job_bounds import JobBounds
from batchai_magics.models.resource_ids import ResourceId

if TYPE_CHECKING:
    from batchai_magics.backends.base import Spec
    from batchai_magics.models.cluster_spec import ScaleSettings
    from batchai_magics.models.mount_volumes import MountVolumes

OpenJob = tuple[Record, RunStatus]  # an open job, and the status of its run


@dataclass(frozen=True)
class HomeContext:
    """A home, and the engine that runs its jobs."""

    repository: Repository  # the records and folders of the home
    runner: Runner  # the engine
    setting: str  # the setting that selects the home, for error messages
    core_quota: int  # how many cores its clusters may have
    bounds: JobBounds = field(default_factory=JobBounds)  # what one job may ask for
    # The jobs that are still marked as open, but were seen to have ended
    ended_jobs: list[Record] = field(default_factory=list)

    @property
    def facts(self) -> EngineFacts:
        """What is known of the engine."""
        return self.runner.facts

    @property
    def layout(self) -> Layout:
        """Where the files of the home are."""
        return self.repository.layout

    @contextmanager
    def refusing_full_disk(self) -> Iterator[None]:
        """Within the context, a full disk raises a StorageError that says what to do."""
        try:
            yield
        except OSError as error:
            if not is_disk_full(error):
                raise
            home = self.layout.home
            hint = f"Free some space there, or set {self.setting} to a folder that has some; then try again."
            text = f"{home} is full ({error.strerror}): nothing was created or submitted"
            raise StorageError(text, code=DISK_FULL, hint=hint) from error

    @contextmanager
    def snapshot(
        self,
        ids: Sequence[ResourceId] = (),
        *,
        runs: Sequence[Run] = (),
        clusters: Sequence[Record] = (),
    ) -> Iterator[None]:
        """Within the context, these are read from a snapshot."""
        guids = [cluster.guid for cluster in clusters]
        with self.repository.snapshot(ids, guids), self.runner.snapshot(runs, guids):
            yield

    def new_record(self, id: ResourceId, spec: Spec, owner: str = "") -> Record:
        """The record of a resource that is to be created."""
        text, digest = stored_descriptions.stored_text(spec), stored_descriptions.fingerprint(spec)
        more = {OWNER: owner} if owner else {}
        return Record(str(id), str(uuid.uuid4()), text, digest, self.repository.now(), more)

    def check_file_servers(self, volumes: MountVolumes) -> None:
        """Raises NotFoundError for a mounted file server that does not exist."""
        for mount in volumes.file_servers or ():
            self.check_exists(ResourceId.parse(mount.file_server.id))

    def check_exists(self, id: ResourceId) -> None:
        """Raises NotFoundError unless a resource of a workspace exists, even if the workspace does not."""
        if not self.repository.find(id.parent):
            raise api_errors.not_found(id)
        self.repository.get(id)

    def status(self, job: Record) -> RunStatus:
        """The status of a job's run."""
        return self.runner.status([run_of(job)])[0]

    def still_open(self, jobs: Sequence[Record]) -> list[Record]:
        """The jobs of these that are open."""
        statuses = self.runner.status(list(map(run_of, jobs)))
        return [job for job, status in zip(jobs, statuses, strict=True) if status.is_open]

    def open_jobs(self, cluster_guid: str) -> list[OpenJob]:
        """The open jobs of a cluster, oldest first."""
        return self._open(self.repository.open_jobs(cluster_guid))

    def all_open_jobs(self) -> list[OpenJob]:
        """The open jobs of all clusters."""
        return self._open(list(self.repository.all_open_jobs()))

    def busy_nodes(self, cluster_guid: str) -> dict[str, str]:
        """The guid of the run on each busy node, by node name; none for an engine that knows them."""
        return busy_nodes(() if self.facts.knows_busy_nodes else self.open_jobs(cluster_guid))

    def jobs_using(self, folders: Sequence[Path]) -> list[str]:
        """The names of the open jobs that use one of these folders of the home."""
        from batchai_magics.backends.folders import mounts
        from batchai_magics.backends.service import resource_views

        names = []
        for job, _ in self.all_open_jobs():
            cluster = resource_views.cluster_spec(job.more[CLUSTER_SPEC])
            used = mounts.used_by(self.layout, stored_descriptions.job_spec(job.spec), cluster)
            if any(path.is_relative_to(folder) for path in used for folder in folders):
                names.append(job.name)
        return names

    def _open(self, jobs: Sequence[Record]) -> list[OpenJob]:
        open_jobs = []
        for job, status in zip(jobs, self.runner.status(list(map(run_of, jobs))), strict=True):
            if status.is_open:
                open_jobs.append((job, status))
            else:
                self.ended_jobs.append(job)
        return open_jobs


def busy_nodes(jobs: Iterable[OpenJob]) -> dict[str, str]:
    """The guid of the run on each node that runs one of these jobs, by node name."""
    return {name: job.guid for job, status in jobs for name in status.nodes}


def run_of(job: Record) -> Run:
    """A job's run, as passed to the engine."""
    return Run(job.guid, job.name, job.created, job.more, JobGroup(*job.more.get(GROUP, ())))


def cluster_of(record: Record) -> ClusterRef:
    """A cluster, as passed to the engine."""
    from batchai_magics.backends.service import resource_views

    spec = resource_views.cluster_spec(record.spec)
    return ClusterRef(record.guid, record.name, spec.vm_size, scale_of(spec.scale_settings), record.more)


def scale_of(settings: ScaleSettings | None) -> Scale:
    """The node counts in a description; 0 if it has none."""
    if settings and settings.auto_scale:
        auto = settings.auto_scale
        least, most = auto.minimum_node_count, auto.maximum_node_count
        return Scale(least, most, auto.initial_node_count or 0, is_auto=True)
    count = settings.manual.target_node_count if settings and settings.manual else 0
    return Scale(count, count)


CLUSTER_SPEC, OUTPUT_ROOT = "cluster_spec", "output_root"  # keys in a job's `more`
