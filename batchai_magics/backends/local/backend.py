"""The local backend: the service over a home on this machine, with our scheduler as its engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.backends.base import Capabilities, Listing, Page, StatusSnapshot
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.local.runner import FRESH_S, LocalRunner
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.local.state import resource_table, run_status
from batchai_magics.backends.local.state.run_status import LOOPBACK
from batchai_magics.backends.local.state.sqlite_repository import SqliteRepository
from batchai_magics.backends.local.state.table_rows import MAX_KEYS
from batchai_magics.backends.local.watch.detached_process import SharedStore
from batchai_magics.backends.service.context import HomeContext, HomeParts, HomeStorage, cluster_of
from batchai_magics.backends.service.host_runs import HostRuns
from batchai_magics.backends.service.lazy_facets import make_lazy
from batchai_magics.backends.service.service import Service
from batchai_magics.backends.service.stored_descriptions import job_resource
from batchai_magics.launch.job_bounds import JobBounds
from batchai_magics.models.resource_ids import Kind

if TYPE_CHECKING:
    from batchai_magics.backends.base import Chunk, FileRef, Patch, Spec
    from batchai_magics.backends.folders.home_accounts import HomeGroups
    from batchai_magics.backends.local.local_folders import HomeCleaning
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.resource_ids import ResourceId
    from batchai_magics.models.resources import JobResource, Node, Resource

CAPABILITIES = Capabilities(
    name="local",
    key_vault=False,
    logins=False,
    known_sizes=True,
    stop_conditions=True,
    notifications=True,
    custom_processes=True,
    restarts=True,
    shared_gpus=True,
    preflight=True,
)
SETTING = "BATCHAI_HOME"


class LocalBackend(Service):
    """Jobs on this machine. State, shares and logs are below its home; several processes may share one."""

    preemption: LocalPreemption
    cleaning: HomeCleaning

    def __init__(
        self, settings: LocalSettings, bounds: JobBounds | None = None, *, pass_env: str = ""
    ) -> None:
        self.settings = settings
        self.layout = Layout(Path(settings.home).expanduser().absolute())
        self.store = SharedStore(self.layout.database)
        self.runner = LocalRunner(self.store, self.layout, settings, pass_env=pass_env)
        self.reconciler = self.runner.reconciler
        context = HomeContext(
            repository=SqliteRepository(self.store),
            runner=self.runner,
            open_parts=self._open_parts,
            core_quota=settings.core_quota,
            host_runs=HostRuns(
                "no docker, podman or apptainer works here",
                "Install podman, docker or apptainer, or set local.container_command.",
                "local.host_preparation",
                settings.host_preparation,
            ),
            shell=self.runner,
            file_server_address=LOOPBACK,
            bounds=bounds or JobBounds(),
        )
        super().__init__(context, CAPABILITIES, self._home_storage)

    def _open_parts(self) -> HomeParts:
        from batchai_magics.backends.local.local_folders import LocalFolders

        return HomeParts(LocalFolders(self.layout, setting=SETTING), self._groups())

    def _groups(self) -> HomeGroups:
        from batchai_magics.backends.folders.home_accounts import HomeGroups
        from batchai_magics.backends.local.state.sqlite_repository import GROUPS, TableRows

        return HomeGroups(TableRows(self.store, GROUPS))

    def _home_storage(self) -> HomeStorage:
        from batchai_magics.backends.folders.home_accounts import home_storage
        from batchai_magics.backends.local.state.sqlite_repository import ACCOUNTS, TableRows

        self.store.check_version()
        return home_storage(self.layout, self.context, self._groups(), TableRows(self.store, ACCOUNTS))

    def check_environment(self, job: JobSpec) -> None:
        """Refuses an environment that this machine cannot make."""
        from batchai_magics.backends.service import environment_maker

        environment_maker.check_maker(job, self.layout.home / "shares", self.runner.has_uv)

    def _create(self, id: ResourceId, spec: Spec, owner: str, records: Mapping[str, str]) -> Resource:
        """Creates a resource, or returns an existing one with the same spec."""
        from batchai_magics.backends.local import machine_devices
        from batchai_magics.models.resources import Cluster

        self.store.make_reserve()
        is_new = self.context.repository.find(id) is None
        made = super()._create(id, spec, owner, records)
        if not (isinstance(made, Cluster) and is_new):
            return made
        notes = machine_devices.hardware_notes(made.spec, machine_devices.machine())
        return replace(made, notes=notes)

    def show(self, id: ResourceId) -> Resource:
        """The current state of a resource."""
        self.reconciler.reconcile()
        with self.store.snapshot():
            return super().show(id)

    def list(self, parent: ResourceId, kind: Kind, page: Page | None = None) -> Listing:
        """The resources of a kind inside `parent`, oldest first; all workspaces of its resource group."""
        self.reconciler.reconcile()
        with self.store.snapshot():
            return super().list(parent, kind, page)

    def status(
        self, ids: Collection[ResourceId], *, since: StatusSnapshot | None = None, wait_s: float = 0.0
    ) -> StatusSnapshot:
        """Jobs and clusters as they stand, all read at one moment."""
        self.reconciler.reconcile(max_age_s=FRESH_S)
        are_few = 0 < len(ids) <= MAX_KEYS
        if are_few and not self.runner.has_unstarted and all(id.kind is Kind.JOB for id in ids):
            return self._job_status(ids)
        with self.store.snapshot():
            return super().status(ids, since=since, wait_s=wait_s)

    def _job_status(self, ids: Collection[ResourceId]) -> StatusSnapshot:
        """The status of jobs, with one SELECT: clients ask for it again and again."""
        with self.store.read() as db:
            jobs = run_status.jobs_with_status(db, [id.key for id in ids])
            return StatusSnapshot({record.key: job_resource(record, status) for record, status in jobs})

    def _update(self, id: ResourceId, patch: Patch) -> Resource:
        """Tags a workspace, or resizes a cluster: nodes with jobs go as the deallocation option says."""
        super()._update(id, patch)
        self.runner.apply_changes()
        return self.show(id)

    def delete(self, id: ResourceId) -> None:
        """Deletes a resource and all inside it. Jobs are ended first; what they wrote stays on its share."""
        super().delete(id)
        self.runner.apply_changes()

    def terminate(self, job: ResourceId, *, now: bool = False) -> None:
        """Asks a job to end; nothing happens to one that has ended."""
        super().terminate(job, now=now)
        self.runner.apply_changes()

    def terminate_jobs(self, jobs: Sequence[ResourceId]) -> None:
        """Asks jobs to end, in few transactions; those that are gone are left out."""
        super().terminate_jobs(jobs)
        self.runner.apply_changes()

    def nodes(self, id: ResourceId) -> Sequence[Node]:
        """The nodes of a cluster, or those a job runs on."""
        self.reconciler.reconcile()
        with self.store.read() as db:
            resource_table.get(db, id)
            return run_status.nodes_of(db, id)

    def jobs_ahead_of(self, job: JobResource) -> Sequence[ResourceId]:
        """The jobs of whatever experiment that get nodes of its cluster before this queued one, in order."""
        with self.store.read() as db:
            return run_status.jobs_ahead_of(db, job.id)

    def read(self, file: FileRef, offset: int = 0, limit: int = 1 << 20) -> Chunk:
        """At most `limit` bytes of a file from `offset`, with the ranks that wrote them, and when."""
        self.reconciler.reconcile()
        return super().read(file, offset, limit)

    def reap(self) -> int:
        """Reaps supervisors that have exited; returns how many children of this process still run."""
        return self.reconciler.reap()


class LocalPreemption:
    """Preempts nodes of lowpriority clusters on request."""

    def __init__(self, backend: LocalBackend) -> None:
        self._context, self._runner = backend.context, backend.runner

    def preempt(self, cluster: ResourceId, node_id: str) -> None:
        """Removes a node of a lowpriority cluster; its job is requeued, and a new node replaces it."""
        from batchai_magics.backends.service import api_errors, resource_views
        from batchai_magics.models.cluster_spec import VmPriority

        record = self._context.repository.get(cluster)
        if resource_views.cluster_spec(record.spec).vm_priority is not VmPriority.LOW_PRIORITY:
            raise api_errors.not_low_priority(cluster)
        if not self._runner.preempt(cluster_of(record), node_id):
            raise api_errors.node_not_found(node_id)
        self._runner.apply_changes()


def _cleaning(backend: LocalBackend) -> HomeCleaning:
    from batchai_magics.backends.local.local_folders import HomeCleaning

    return HomeCleaning(backend.context, backend.reconciler)


make_lazy(LocalBackend, {"preemption": LocalPreemption, "cleaning": _cleaning})
