"""The Service: implements the Backend protocol over the repository of a home and a runner."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from batchai_magics.backends.base import Backend, Listing, NewJob, Page, StatusSnapshot, check_supported
from batchai_magics.backends.base.protocol import ignoring_existing, on_first_use, runs
from batchai_magics.backends.folders import mounts, private_files, run_output
from batchai_magics.backends.folders.entries import resolve_inside
from batchai_magics.backends.folders.run_output import Logs
from batchai_magics.backends.service import stored_descriptions
from batchai_magics.backends.service.context import (
    CLUSTER_SPEC,
    OUTPUT_ROOT,
    HomeContext,
    busy_nodes,
    cluster_of,
    run_of,
)
from batchai_magics.backends.service.repository import CLUSTER_GUID, CLUSTER_NOTES
from batchai_magics.backends.service.runner import ClusterRef, NodeCommand, Scale
from batchai_magics.backends.service.stored_descriptions import RecordedJob, output_segment
from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.launch.job_bounds import JobBounds
from batchai_magics.models.job_execution import STDOUTERR
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource

if TYPE_CHECKING:
    from batchai_magics.backends.base import (
        Accounts,
        Chunk,
        CommandOutput,
        FileRef,
        Groups,
        JobNeeds,
        NodeCommands,
        Ownership,
        Patch,
        SetupLogs,
        Spec,
        Storage,
        Telemetry,
        Usages,
    )
    from batchai_magics.backends.service.repository import Record, Repository
    from batchai_magics.backends.service.run_labels import RunRecords
    from batchai_magics.backends.service.runner import Runner
    from batchai_magics.models.job_execution import OutputFile
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.resources import Node, Resource
    from batchai_magics.models.subscription import Usage
    from batchai_magics.models.telemetry_records import TelemetryRecord


BATCH = 1000  # jobs that are created in one transaction


class Service(Backend):
    """Workspaces, clusters, experiments and jobs of a home, run by an engine.

    Jobs are listed without the models and the facets, which are loaded when they are used.
    """

    shares: Storage = on_first_use(lambda service: _storage(service.context, "shares", "share"))
    storage: Storage | None = on_first_use(lambda service: service.shares)  # None where users have no shares
    containers: Storage | None = on_first_use(
        lambda service: _storage(service.context, "containers", "container")
    )
    accounts: Accounts | None = on_first_use(lambda service: _accounts(service.context))
    groups: Groups = on_first_use(lambda service: _groups(service.context, service.accounts))
    node_commands: NodeCommands | None = on_first_use(
        lambda service: (
            ServiceNodeCommands(service.context) if service.context.facts.has_node_commands else None
        )
    )
    setup_logs: SetupLogs = on_first_use(lambda service: ServiceSetupLogs(service.context))
    telemetry: Telemetry = on_first_use(lambda service: ServiceTelemetry(service.context))
    records: RunRecords = on_first_use(lambda service: _records(service.context))
    ownership: Ownership = on_first_use(lambda service: service.context.repository)
    usages: Usages = on_first_use(lambda service: ServiceUsages(service.context))

    def __init__(
        self,
        repository: Repository,
        runner: Runner,
        *,
        setting: str,
        core_quota: int,
        bounds: JobBounds | None = None,
    ) -> None:
        """`setting` is the setting that selects the home, for error messages."""
        self.context = HomeContext(repository, runner, setting, core_quota, bounds or JobBounds())
        self.capabilities = runner.facts.capabilities

    def host_note(self, job: JobSpec) -> str:
        """What to tell the user of a job that will run without its image; see `Backend.host_note`."""
        from batchai_magics.backends.service import job_admission  # loads the models

        return job_admission.note_before_submission(self.context, job)

    def check(self, job: JobSpec) -> None:
        """Checks a job against the capabilities and the bounds."""
        super().check(job)
        self.context.bounds.check(job, gpus_per_node=job.batchai_gpus or 0)

    def check_needs(self, needs: JobNeeds) -> None:
        """Checks a job on its cluster; a run that exists is shown even where it could not run any more."""
        from batchai_magics.backends.service import job_admission

        if needs.spec:
            try:
                job_admission.check_needs(self.context, needs, needs.spec)
            except BatchAIError:
                with contextlib.suppress(NotFoundError):
                    if any(run.spec.to_wire() == needs.spec.to_wire() for run in runs(self, needs.job)):
                        return
                raise

    def _create(self, id: ResourceId, spec: Spec, owner: str, records: Mapping[str, str]) -> Resource:
        """Creates a resource, or returns it if the same one exists."""
        from batchai_magics.backends.service import job_admission, resource_changes  # readers need neither
        from batchai_magics.models.cluster_spec import ClusterSpec
        from batchai_magics.models.job_spec import JobSpec
        from batchai_magics.models.resources import Cluster, JobResource

        notes: Sequence[str] = ()
        if isinstance(spec, ClusterSpec) and not self.context.repository.find(id):
            notes = self.context.facts.notes_of_cluster(spec)
        with self.context.refusing_full_disk():
            if isinstance(spec, JobSpec):
                (record,) = job_admission.create_jobs(self.context, [NewJob(id, spec, records, owner)])
                notes = record.more.get(CLUSTER_NOTES, ())
            else:
                record = resource_changes.create(self.context, id, spec, owner)
        view = self._views([record])[0]
        self.reconcile()
        return view.with_notes(notes) if isinstance(view, (Cluster, JobResource)) else view

    def create_jobs(self, jobs: Sequence[NewJob]) -> Sequence[JobResource]:
        """Creates jobs, together where the engine can."""
        from batchai_magics.backends.service import job_admission

        for job in jobs:
            check_supported(self.capabilities, job.spec)
        records = []
        with self.context.refusing_full_disk():
            for begin in range(0, len(jobs), BATCH):
                records += job_admission.create_jobs(self.context, jobs[begin : begin + BATCH])
                self.reconcile()
        views = zip(cast("Sequence[JobResource]", self._views(records)), records, strict=True)
        return [view.with_notes(record.more.get(CLUSTER_NOTES, ())) for view, record in views]

    def ensure(self, needs: JobNeeds) -> Sequence[JobResource]:
        """Creates what a job needs and is missing; its files go to the shares of the home."""
        self.check_needs(needs)
        records = self.context.repository.find_all([id for id, _ in needs.resources])
        existing = {record.key for record in records}
        for id, spec in needs.resources:
            if id.key not in existing:
                with ignoring_existing(self, id):
                    self.create(id, spec)
        if needs.share:
            with self.context.refusing_full_disk():
                self.shares.make(needs.share)
                self.shares.upload(needs.share, needs.files)
        return runs(self, needs.job)

    def show(self, id: ResourceId) -> Resource:
        """The resource with its current status."""
        with self.context.repository.snapshot():
            return self._views([self.context.repository.get(id)])[0]

    def list(self, parent: ResourceId, kind: Kind, page: Page | None = None) -> Listing:
        """The resources of a kind in `parent`, oldest first; workspaces are listed by resource group."""
        with self.context.repository.snapshot(), _uncollected():
            if kind is not Kind.WORKSPACE:
                self.context.repository.get(parent)
            records, after = self.context.repository.children(parent, kind, page or Page())
            return Listing(self._views(records), after)

    def names(self, parent: ResourceId, kind: Kind, prefix: str = "") -> Sequence[str]:
        """The names in `parent` with this prefix; reads only records."""
        self.context.repository.get(parent)
        return self.context.repository.names(parent, kind, prefix)

    def status(
        self, ids: Collection[ResourceId], *, since: StatusSnapshot | None = None, wait_s: float = 0.0
    ) -> StatusSnapshot:
        """The status of jobs and clusters, with at most one query to the engine; `since` while it holds."""
        with self.context.repository.snapshot():
            version = self.context.runner.version()
            if since and version and since.state == version:
                return since
            records = self.context.repository.find_all(ids)
            views = zip(records, self._views(records), strict=True)
        return StatusSnapshot({record.key: resource for record, resource in views}, version)

    def reconcile(self) -> None:
        """Starts what can start, and records and ends what a dead process left undone.

        Jobs that were seen to have ended are not marked as open any more.
        """
        self.context.runner.reconcile()
        ended = self.context.ended_jobs
        while ended:
            self.context.repository.remove_open_job(ended.pop())

    def close(self) -> None:
        """Releases the engine's connections and files."""
        self.context.runner.close()

    def _update(self, id: ResourceId, patch: Patch) -> Resource:
        """Tags a workspace, or resizes a cluster according to the deallocation option."""
        from batchai_magics.backends.service import resource_changes
        from batchai_magics.models.resources import WorkspacePatch

        with self.context.refusing_full_disk():
            if isinstance(patch, WorkspacePatch):
                resource_changes.change_tags(self.context, id, dict(patch.tags))
            else:
                resource_changes.resize(self.context, id, patch)
        self.reconcile()
        return self.show(id)

    def delete(self, id: ResourceId) -> None:
        """Deletes a resource and everything in it; jobs are ended first."""
        from batchai_magics.backends.service import resource_changes

        resource_changes.delete(self.context, id)
        self.reconcile()

    def terminate(self, job: ResourceId, *, now: bool = False) -> None:
        """Asks a job to stop; no effect on one that has ended."""
        run = run_of(self.context.repository.get(job))
        self.context.runner.stop([run], grace_s=0.0 if now else None)
        self.reconcile()

    def terminate_jobs(self, jobs: Sequence[ResourceId]) -> None:
        """Asks jobs to stop, together where the engine can; those that are gone are left out."""
        for begin in range(0, len(jobs), BATCH):
            records = self.context.repository.find_all(jobs[begin : begin + BATCH])
            self.context.runner.stop(list(map(run_of, records)))
        self.reconcile()

    def nodes(self, id: ResourceId) -> Sequence[Node]:
        """The nodes of a cluster, or those a job holds."""
        from batchai_magics.backends.service import resource_views

        record = self.context.repository.get(id)
        if id.kind is Kind.JOB:
            return resource_views.nodes_of_job(record.resource_id, self.context.status(record))
        with self.context.snapshot(clusters=[record]):
            jobs = self.context.open_jobs(record.guid)
            statuses = self.context.runner.nodes(cluster_of(record), busy_nodes(jobs))
        running = {
            node.id: node
            for job, status in jobs
            for node in resource_views.nodes_of_job(job.resource_id, status)
        }
        return [resource_views.node(status, running) for status in statuses]

    def files(
        self,
        job: ResourceId,
        directory_id: str = STDOUTERR,
        path: str = "",
        *,
        expiry_min: int = 60,
        limit: int | None = None,
    ) -> Sequence[OutputFile]:
        """Lists a folder of a job's output directory, sorted by name; URLs of files here never expire."""
        folder = self._output(self.context.repository.get(job), directory_id)
        return run_output.output_listing(folder, path, limit=limit)

    def read(self, file: FileRef, offset: int = 0, limit: int = 1 << 20) -> Chunk:
        """At most `limit` bytes of a file from `offset`, with the ranks that wrote them, and when."""
        job = self.context.repository.get(file.job)
        is_open = self.context.status(job).is_open
        folder, layout = self._output(job, file.directory_id), self.context.layout.job(job.guid)
        if file.directory_id.lower() != STDOUTERR:
            path = resolve_inside(folder, file.path)
            return run_output.read_output(path, offset, limit, is_complete=not is_open)
        with private_files.read_ahead([layout.root], listed=[folder]):
            return Logs(folder, layout, is_open).read(file.path, offset, limit)

    def tail(
        self,
        job: ResourceId,
        positions: Mapping[str, int],
        limit: int = 1 << 20,
        *,
        wait_s: float = 0.0,
    ) -> Mapping[str, Chunk]:
        """The new bytes of all of a job's logs; most have none, and nothing but their sizes is read."""
        record = self.context.repository.get(job)
        folder, layout = self._output(record, STDOUTERR), self.context.layout.job(record.guid)
        changed = run_output.changed_logs(folder, positions)
        if not changed:
            return {}
        is_open = self.context.status(record).is_open  # before the logs are read: then an ended one has all
        with private_files.read_ahead([layout.root], listed=[folder]):
            return Logs(folder, layout, is_open).tail(changed, limit)

    def _output(self, job: Record, directory_id: str) -> Path:
        """The folder of one of a job's output directories."""
        layout = self.context.layout
        if directory_id.lower() == STDOUTERR:
            return layout.home / _logs_folder(job.id, job.guid, job.more[OUTPUT_ROOT])
        from batchai_magics.backends.service import resource_views  # loads the models

        cluster = resource_views.cluster_spec(job.more[CLUSTER_SPEC])
        spec, segment = stored_descriptions.job_spec(job.spec), output_segment(job.resource_id, job.guid)
        return mounts.output_folder(layout, spec, cluster, directory_id, segment)

    def _views(self, records: Sequence[Record]) -> Sequence[Resource]:
        """Converts records to resources; the files for their status are read together."""
        jobs: list[Record] = []
        clusters: list[Record] = []
        for record in records:
            kind = record.kind
            if kind is Kind.JOB:
                jobs.append(record)
            elif kind is Kind.CLUSTER:
                clusters.append(record)
        runs = list(map(run_of, jobs))
        with self.context.snapshot(runs=runs, clusters=clusters):
            statuses = {
                job.guid: status for job, status in zip(jobs, self.context.runner.status(runs), strict=True)
            }
            return [
                RecordedJob.of(record, statuses[record.guid])
                if record.guid in statuses
                else self._view(record)
                for record in records
            ]

    def _view(self, record: Record) -> Resource:
        from batchai_magics.backends.service import resource_views  # loads the models

        if record.kind is not Kind.CLUSTER:
            return resource_views.of_record(record, self.context.facts.file_server_address)
        cluster = cluster_of(record)
        nodes = self.context.runner.nodes(cluster, self.context.busy_nodes(record.guid))
        return resource_views.cluster(record, nodes, self.context.facts.warnings(cluster))


@lru_cache(maxsize=1024)
def _logs_folder(id: str, guid: str, output_root: str) -> str:
    """The folder of a run's logs, relative to the home or absolute; cached for polling."""
    return f"{output_root}/{output_segment(ResourceId.parse(id), guid)}/{STDOUTERR}"


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without garbage collection: it takes half of the time of a long list, and finds nothing in it."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _storage(context: HomeContext, kind: str, noun: str) -> Storage:
    """The shares or the containers of a home."""
    from batchai_magics.backends.folders.shares import FolderStorage

    layout = context.layout
    return FolderStorage(layout.home / kind, layout.unfinished(kind), noun, context.jobs_using)


def _accounts(context: HomeContext) -> Accounts:
    """The storage accounts of a home."""
    from batchai_magics.backends.service.home_subscription import HomeAccounts

    return HomeAccounts(context.repository, context.jobs_using)


def _records(context: HomeContext) -> RunRecords:
    """The records of a home's runs."""
    from batchai_magics.backends.service.run_labels import RunRecords

    return RunRecords(context)


def _groups(context: HomeContext, accounts: Accounts | None) -> Groups:
    """The resource groups of a home, which are deleted with their contents."""
    from batchai_magics.backends.service.home_subscription import HomeGroups
    from batchai_magics.backends.service.resource_changes import delete_in_group

    return HomeGroups(context.repository.groups, partial(delete_in_group, context, accounts))


class ServiceNodeCommands(NamedTuple):
    """Commands on the nodes of clusters and jobs."""

    context: HomeContext

    def execute(self, id: ResourceId, node_id: str, command: str, *, tick_s: float = 0.0) -> CommandOutput:
        """Runs a shell command on a node, in its folder and environment; yields output as it arrives."""
        from batchai_magics.backends.base import api_errors

        record = self.context.repository.get(id)
        if id.kind is Kind.JOB:
            cluster = ClusterRef(record.more[CLUSTER_GUID], "", "", Scale(0, 0), record.more)
        else:
            cluster = cluster_of(record)
        runs = [(run_of(job), status) for job, status in self.context.open_jobs(cluster.guid)]
        on_node = NodeCommand(node_id, command, runs, tick_s)
        if id.kind is Kind.JOB and on_node.busy.get(node_id) != record.guid:
            raise api_errors.node_not_found(node_id)
        return self.context.runner.execute(cluster, on_node)


class ServiceSetupLogs(NamedTuple):
    """The output of clusters' setup tasks on mounted shares."""

    context: HomeContext

    def files(self, cluster: ResourceId, path: str = "", *, expiry_min: int = 60) -> Sequence[OutputFile]:
        """Lists a folder of a setup task's output, sorted by name."""
        from batchai_magics.backends.base import api_errors
        from batchai_magics.backends.service import resource_views

        spec = resource_views.cluster_spec(self.context.repository.get(cluster).spec)
        logs = mounts.setup_logs(self.context.layout, spec)
        if logs is None:
            raise api_errors.no_setup_logs()
        return run_output.output_listing(logs, path)


class ServiceTelemetry(NamedTuple):
    """Telemetry of jobs' processes."""

    context: HomeContext

    def read(self, job: ResourceId, *, after: float = 0.0) -> TelemetryRecord:
        """The samples taken after the time `after`, in seconds since 1970."""
        from batchai_magics.backends.folders import rank_files

        record = self.context.repository.get(job)
        return rank_files.read_telemetry(self.context.layout.job(record.guid).telemetry, after)


class ServiceUsages(NamedTuple):
    """The quotas of a home."""

    context: HomeContext

    def list(self, location: str) -> Sequence[Usage]:
        """The usage of each quota, the same in every location."""
        from batchai_magics.backends.service.home_subscription import Nodes, quota_usages

        nodes = map(Nodes.of, self.context.repository.clusters())
        return quota_usages(nodes, self.context.core_quota)
