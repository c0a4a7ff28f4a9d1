"""The local backend: the Backend protocol over a store, folders and detached supervisors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.backends.base import Capabilities, Listing, Page, StatusSnapshot
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local.lazy_facets import LazyFacets
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state import job_table, resource_table, stored_resources
from batchai_magics.backends.local.watch.reconciler import Reconciler
from batchai_magics.backends.local.watch.shared_store import SharedStore
from batchai_magics.backends.service.descriptions import output_segment
from batchai_magics.models.job_execution import STDOUTERR
from batchai_magics.models.resource_ids import Kind, ResourceId

if TYPE_CHECKING:
    from batchai_magics.backends.base import Chunk, FileRef, Patch, Spec
    from batchai_magics.backends.folders.logs import Logs
    from batchai_magics.backends.local.state.job_table import JobRow
    from batchai_magics.models.job_execution import OutputFile
    from batchai_magics.models.resources import JobResource, Node, Resource

CAPABILITIES = Capabilities(
    name="local", key_vault=False, logins=False, known_sizes=True, stop_conditions=True, custom_processes=True
)
FRESH_S = 0.1  # cache TTL for polling


class LocalBackend(LazyFacets):
    """Jobs on this machine. State, shares and logs are below its home; several processes may share one."""

    capabilities = CAPABILITIES

    def __init__(self, settings: LocalSettings) -> None:
        self.settings = settings
        self.layout = Layout(Path(settings.home).expanduser().absolute())
        self.store = SharedStore(self.layout.database)
        self.reconciler = Reconciler(self.store, self.layout)

    def _create(self, id: ResourceId, spec: Spec, owner: str) -> Resource:
        """Creates a resource, or returns an existing one with the same spec."""
        from batchai_magics.backends.local import (  # readers never need them
            machine_devices,
            resource_creation,
        )
        from batchai_magics.backends.local.watch import scheduler
        from batchai_magics.models.resources import Cluster

        draft = resource_creation.check(
            self.layout, id, spec, container_command=self.settings.container_command
        )
        draft = replace(draft, owner=owner)
        is_new = resource_creation.insert(self.store, self.layout, draft, settings=self.settings)
        written = self._stored(id) if is_new else None
        if is_new:
            with (
                scheduler.release_on_interrupt(self.store, draft.guid),
                scheduler.head_start(self.store, self.layout, draft.guid),
            ):
                self.reconciler.reconcile(is_due=True, secrets=draft.secrets)
        else:
            self.reconciler.reconcile()
        if isinstance(written, Cluster):  # like the service's response, before it has nodes
            return replace(
                written, notes=machine_devices.hardware_notes(written.spec, machine_devices.machine())
            )
        return self.show(id)

    def show(self, id: ResourceId) -> Resource:
        """The current state of a resource."""
        self.reconciler.reconcile()
        return self._stored(id)

    def _stored(self, id: ResourceId) -> Resource:
        """The resource in the store, without reconciling."""
        with self.store.read() as db:
            return stored_resources.resource_view(db, resource_table.get(db, id))

    def list(self, parent: ResourceId, kind: Kind, page: Page | None = None) -> Listing:
        """The resources of a kind inside `parent`, oldest first; all workspaces of its resource group."""
        self.reconciler.reconcile()
        with self.store.read() as db:
            if kind is not Kind.WORKSPACE:
                resource_table.get(db, parent)
            return stored_resources.list_inside(db, parent, kind, page or Page())

    def names(self, parent: ResourceId, kind: Kind, prefix: str = "") -> Sequence[str]:
        """The names inside `parent` with that prefix; reads nothing else."""
        with self.store.read() as db:
            resource_table.get(db, parent)
            return resource_table.names(db, parent, kind, prefix)

    def jobs_ahead_of(self, job: JobResource) -> Sequence[ResourceId]:
        """The jobs of whatever experiment that get nodes of its cluster before this queued one, in order."""
        with self.store.read() as db:
            return stored_resources.jobs_ahead_of(db, job.id)

    def status(
        self, ids: Collection[ResourceId], *, since: StatusSnapshot | None = None, wait_s: float = 0.0
    ) -> StatusSnapshot:
        """Jobs and clusters as they stand, all read in one transaction."""
        self.reconciler.reconcile(max_age_s=FRESH_S)
        with self.store.read() as db:
            found = stored_resources.find_many(db, ids)
        return StatusSnapshot({resource.id.key: resource for resource in found})

    def _update(self, id: ResourceId, patch: Patch) -> Resource:
        """Tags a workspace, or resizes a cluster: nodes with jobs go as the deallocation option says."""
        from batchai_magics.backends.local.watch import cluster_scaling, job_stopping
        from batchai_magics.models.resources import WorkspacePatch

        if isinstance(patch, WorkspacePatch):
            from batchai_magics.backends.local import resource_creation

            resource_creation.change_tags(self.store, id, patch.tags)
            return self.show(id)
        job_stopping.wake(
            self.store, cluster_scaling.resize(self.store, id, patch, core_quota=self.settings.core_quota)
        )
        self.reconciler.reconcile(is_due=True)
        return self.show(id)

    def delete(self, id: ResourceId) -> None:
        """Deletes a resource and all inside it. Jobs are ended first; what they wrote stays on its share."""
        from batchai_magics.backends.local import resource_deletion

        resource_deletion.delete(self.reconciler, id)

    def terminate(self, job: ResourceId) -> None:
        """Asks a job to end; nothing happens to one that has ended."""
        from batchai_magics.backends.local.watch import job_stopping

        with self.store.read() as db:
            resource_table.get(db, job)
        job_stopping.wake(self.store, job_stopping.request_stop(self.store, [job.key]))
        self.reconciler.reconcile_if_room(is_due=True)

    def nodes(self, id: ResourceId) -> Sequence[Node]:
        """The nodes of a cluster, or those a job runs on."""
        self.reconciler.reconcile()
        with self.store.read() as db:
            resource_table.get(db, id)
            return stored_resources.nodes_of(db, id)

    def files(
        self,
        job: ResourceId,
        directory_id: str = STDOUTERR,
        path: str = "",
        *,
        expiry_min: int = 60,
        limit: int | None = None,
    ) -> Sequence[OutputFile]:
        """One level of a job's output directory, sorted by name; addresses of files here never expire."""
        from batchai_magics.backends.folders import outputs

        return outputs.listing(self._directory(job, directory_id)[0], path, limit=limit)

    def read(self, file: FileRef, offset: int = 0, limit: int = 1 << 20) -> Chunk:
        """At most `limit` bytes of a file from `offset`, with the ranks that wrote them, and when."""
        from batchai_magics.backends.folders import entries, outputs

        self.reconciler.reconcile()
        folder, run = self._directory(file.job, file.directory_id)
        if file.directory_id.lower() != STDOUTERR:
            path = entries.resolve_inside(folder, file.path)
            return outputs.read(path, offset, limit, is_complete=not run.is_open)
        return self._logs_of(folder, run).read(file.path, offset, limit)

    def tail(
        self,
        job: ResourceId,
        positions: Mapping[str, int],
        limit: int = 1 << 20,
        *,
        wait_s: float = 0.0,
    ) -> Mapping[str, Chunk]:
        """The new bytes of all of a job's logs, with one read of the store."""
        self.reconciler.reconcile(max_age_s=FRESH_S)
        folder, run = self._directory(job, STDOUTERR)
        return self._logs_of(folder, run).tail(positions, limit)

    def _logs_of(self, folder: Path, run: JobRow) -> Logs:
        from batchai_magics.backends.folders.logs import Logs

        return Logs(folder, self.layout.job(run.guid), run.is_open)

    def reap(self) -> int:
        """Reaps supervisors that have exited; returns how many children of this process still run."""
        return self.reconciler.reap()

    def close(self) -> None:
        """Closes the store's file; jobs keep running."""
        self.store.close()

    def _directory(self, job: ResourceId, directory_id: str) -> tuple[Path, JobRow]:
        if directory_id.lower() == STDOUTERR:
            return self._logs(job)
        from batchai_magics.backends.folders import mounts  # both load the models
        from batchai_magics.backends.local.state import stored_resources, stored_specs

        with self.store.read() as db:
            row, run = resource_table.get(db, job), job_table.get(db, job.key)
            spec = stored_resources.job_spec(row.spec)
            cluster = resource_table.find(db, ResourceId.parse(spec.cluster.id))
        cluster_spec = stored_specs.cluster_spec(cluster.spec) if cluster else None
        segment = output_segment(row.id, run.guid)
        return mounts.output_folder(self.layout, spec, cluster_spec, directory_id, segment), run

    def _logs(self, job: ResourceId) -> tuple[Path, JobRow]:
        with self.store.read() as db:
            found = job_table.find_with_id(db, job.key)
            if found is None:
                raise resource_table.not_found(db, job)
        id, run = found
        return _logs_folder(id, run.guid, run.output_root), run


@lru_cache(maxsize=1024)
def _logs_folder(id: str, guid: str, output_root: str) -> Path:
    """The folder of a run's logs; cached for polling."""
    return Path(output_root) / output_segment(ResourceId.parse(id), guid) / STDOUTERR
