"""The Service: implements the Backend protocol over a repository, the folders of a home, and a runner."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from batchai_magics.backends.base import BackendBase, Capabilities, Listing, StatusSnapshot
from batchai_magics.backends.service import creation, deletion, resource_views
from batchai_magics.backends.service.context import Context, busy_nodes, cluster_of, run_of
from batchai_magics.backends.service.groups import OwnGroups
from batchai_magics.backends.service.service_facets import (
    ServiceNodeCommands,
    ServiceOwnership,
    ServiceSetupLogs,
    ServiceTelemetry,
    ServiceUsages,
)
from batchai_magics.models.job_execution import STDOUTERR
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import WorkspacePatch

if TYPE_CHECKING:
    from batchai_magics.backends.base import (
        Accounts,
        Chunk,
        FileRef,
        JobNeeds,
        Page,
        Patch,
        Spec,
        Storage,
    )
    from batchai_magics.backends.service.repository import Record
    from batchai_magics.backends.service.runner import NodeStatus, RunStatus
    from batchai_magics.models.job_execution import OutputFile
    from batchai_magics.models.resources import JobResource, Node, Resource

_VIEWS: Mapping[Kind, Callable[[Record], Resource]] = {
    Kind.WORKSPACE: resource_views.workspace,
    Kind.EXPERIMENT: resource_views.experiment,
    Kind.FILE_SERVER: resource_views.file_server,
}


class Service(BackendBase):
    """Workspaces, clusters, experiments and jobs of a home, run by an engine."""

    storage: Storage | None
    containers: Storage | None
    accounts: Accounts | None
    groups: OwnGroups

    def __init__(
        self,
        context: Context,
        capabilities: Capabilities,
        *,
        storage: Storage | None,
        containers: Storage | None,
        accounts: Accounts | None,
    ) -> None:
        """The facets of shares, containers and accounts are None for a backend whose users have none."""
        self.context, self._capabilities = context, capabilities
        self.storage, self.containers, self.accounts = storage, containers, accounts
        self.groups = OwnGroups(
            context.groups,
            accounts,
            workspaces=lambda: [record.resource_id for record in context.repository.workspaces()],
            delete=lambda workspace: deletion.delete(context, workspace),
        )
        self.node_commands = ServiceNodeCommands(context, context.shell) if context.shell else None
        self.telemetry = ServiceTelemetry(context)
        self.usages = ServiceUsages(context)
        self.ownership = ServiceOwnership(context.repository)
        self.setup_logs = ServiceSetupLogs(context)

    @property
    def capabilities(self) -> Capabilities:
        """What this backend supports."""
        return self._capabilities

    def _create(self, id: ResourceId, spec: Spec, owner: str) -> Resource:
        """Creates a resource, or returns it if the same one exists."""
        with self.context.folders.refusing_full_disk():
            record = creation.create(self.context, id, spec, owner)
        return self._views([record])[0]

    def ensure(self, needs: JobNeeds) -> Sequence[JobResource]:
        """Creates what a job needs and is missing; its files go to the home, also without shares."""
        runs = super().ensure(replace(needs, share="", files={}))
        if needs.share:
            with self.context.folders.refusing_full_disk():
                self.context.folders.write_files(needs.share, needs.files)
        return runs

    def show(self, id: ResourceId) -> Resource:
        """The resource with its current status."""
        return self._views([self.context.repository.get(id)])[0]

    def list(self, parent: ResourceId, kind: Kind, page: Page | None = None) -> Listing:
        """The resources of a kind in `parent`, oldest first; for workspaces, those of its resource group."""
        from batchai_magics.backends.base import Page

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
        """The status of jobs and clusters, with at most one query to the engine."""
        views = self._views(self.context.repository.find_all(ids))
        return StatusSnapshot({resource.id.key: resource for resource in views})

    def close(self) -> None:
        """Releases the engine's connections and files."""
        self.context.runner.close()

    def _update(self, id: ResourceId, patch: Patch) -> Resource:
        """Tags a workspace, or resizes a cluster according to the deallocation option."""
        with self.context.folders.refusing_full_disk():
            if isinstance(patch, WorkspacePatch):
                creation.change_tags(self.context, id, dict(patch.tags))
            else:
                creation.resize(self.context, id, patch)
        return self.show(id)

    def delete(self, id: ResourceId) -> None:
        """Deletes a resource and everything in it; jobs are ended first."""
        deletion.delete(self.context, id)

    def terminate(self, job: ResourceId) -> None:
        """Asks a job to stop; no effect on one that has ended."""
        self.context.runner.stop(run_of(self.context.repository.get(job)))

    def nodes(self, id: ResourceId) -> Sequence[Node]:
        """The nodes of a cluster, or those a job holds."""
        record = self.context.repository.get(id)
        if id.kind is Kind.JOB:
            return resource_views.nodes_of_job(record.resource_id, self.context.status(record))
        statuses, running = self._nodes_of(record)
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
        return self.context.folders.files(self.context.repository.get(job), directory_id, path, limit)

    def read(self, file: FileRef, offset: int = 0, limit: int = 1 << 20) -> Chunk:
        """At most `limit` bytes of a file from `offset`, with the ranks that wrote them, and when."""
        job = self.context.repository.get(file.job)
        is_open = self.context.status(job).is_open
        return self.context.folders.read(job, file.directory_id, file.path, offset, limit, is_open=is_open)

    def tail(
        self,
        job: ResourceId,
        positions: Mapping[str, int],
        limit: int = 1 << 20,
        *,
        wait_s: float = 0.0,
    ) -> Mapping[str, Chunk]:
        """The new bytes of all of a job's logs."""
        record = self.context.repository.get(job)
        is_open = self.context.status(record).is_open
        return self.context.folders.tail(record, positions, limit, is_open=is_open)

    def _views(self, records: Sequence[Record]) -> Sequence[Resource]:
        """Converts records to resources; the files for their status are read together."""
        jobs = [record for record in records if record.kind is Kind.JOB]
        clusters = [record for record in records if record.kind is Kind.CLUSTER]
        is_live = bool(jobs or clusters)
        with self.context.snapshot(jobs=jobs, clusters=clusters) if is_live else contextlib.nullcontext():
            statuses = self._statuses(jobs)
            return [self._view(record, statuses.get(record.guid)) for record in records]

    def _statuses(self, jobs: Sequence[Record]) -> Mapping[str, RunStatus]:
        """The statuses of the runs of jobs, by guid; read together."""
        runs = [run_of(job) for job in jobs]
        return {run.guid: status for run, status in zip(runs, self.context.runner.poll(runs), strict=True)}

    def _view(self, record: Record, status: RunStatus | None) -> Resource:
        if status is not None:
            return resource_views.job(record, status)
        kind = record.kind
        if kind is Kind.CLUSTER:
            warnings = self.context.runner.warnings(cluster_of(record))
            return resource_views.cluster(record, self._nodes_of(record)[0], warnings)
        return _VIEWS[kind](record)

    def _nodes_of(self, cluster: Record) -> tuple[Sequence[NodeStatus], Mapping[str, Node]]:
        """The status of a cluster's nodes, and the nodes that jobs hold, by name."""
        with self.context.snapshot(clusters=[cluster]):
            runs = self.context.open_runs(cluster.guid)
            running = {
                node.id: node
                for job, _, status in runs
                for node in resource_views.nodes_of_job(job.resource_id, status)
            }
            return self.context.runner.nodes(cluster_of(cluster), busy_nodes(runs)), running
