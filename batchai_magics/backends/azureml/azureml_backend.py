"""The azureml backend: the Backend protocol over the workspace's jobs, computes and run history."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from batchai_magics.backends.azure.arm_protocol import check_inside
from batchai_magics.backends.azureml.clusters import Clusters
from batchai_magics.backends.azureml.connection import Connection
from batchai_magics.backends.azureml.job_creation import JobCreation
from batchai_magics.backends.azureml.job_logs import INTERVALS, JobLogs
from batchai_magics.backends.azureml.jobs import WAITING, AzureJob, Jobs
from batchai_magics.backends.azureml.output_files import Datastores, OutputFiles, list_log_files
from batchai_magics.backends.azureml.quota import Quota, with_nodes
from batchai_magics.backends.azureml.run_records import JobRecords, RunStatuses, RunTelemetry
from batchai_magics.backends.azureml.settings import NAME, AzureMLSettings
from batchai_magics.backends.azureml.ttl_cache import TtlCache
from batchai_magics.backends.base import (
    Backend,
    Capabilities,
    Chunk,
    FileRef,
    JobNeeds,
    Listing,
    Pace,
    Page,
    Patch,
    Spec,
    StatusSnapshot,
    api_errors,
)
from batchai_magics.backends.base.protocol import MAX_RUNS, run_names
from batchai_magics.config import Settings
from batchai_magics.errors import CapabilityError, NotFoundError
from batchai_magics.models.job_execution import STDOUTERR, OutputFile
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId, workspace_id
from batchai_magics.models.resources import Cluster, Experiment, JobResource, Resource, Workspace
from batchai_magics.models.response_object import Provisioning
from batchai_magics.models.states import ExecutionState

if TYPE_CHECKING:
    from batchai_magics.models.resources import Node

_AWAITING_NODES = ("Queued", "Provisioning")


class AzureMLBackend(Backend):
    """Jobs in one workspace. It keeps no state but caches: all processes and machines see the same."""

    intervals = INTERVALS
    records: JobRecords
    telemetry: RunTelemetry
    usages: Quota
    prices: Quota

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self.connection = connection
        self.capabilities = Capabilities(
            name=NAME,
            setup_tasks=False,
            file_servers=False,
            unmanaged_mounts=False,
            key_vault=False,
            logins=False,
            stop_conditions=True,
            custom_processes=True,
            backend_options=tuple(option.name for option in AzureMLSettings.BACKEND_OPTIONS),
            pace=Pace(poll_interval_s=connection.settings.look_s),
        )
        self._workspace = workspace_id(settings)
        self.jobs = Jobs(connection, lambda job: self._statuses.of(job))
        self.clusters = Clusters(connection)
        self.usages = self.prices = Quota(self.clusters)
        self._creation = JobCreation(connection, self.jobs, self.usages, settings)
        self.logs = JobLogs(connection, self.jobs, intervals=self.intervals)
        self._outputs = OutputFiles(Datastores(connection))
        self.recent = TtlCache[Resource](self._life_s)
        self._statuses = RunStatuses(self.logs, self._wait_reason)
        self.records = JobRecords(self.jobs, self.logs)
        self.telemetry = RunTelemetry(self.logs)

    def _create(self, id: ResourceId, spec: Spec, owner: str, records: Mapping[str, str]) -> Resource:
        """Creates a job or cluster; workspaces exist in Azure already, and experiments are names of jobs."""
        self._check_workspace(id)
        if id.kind in (Kind.WORKSPACE, Kind.EXPERIMENT):
            return self.show(id)
        if id.kind is Kind.CLUSTER:
            return self.clusters.create(id, spec)
        if isinstance(spec, JobSpec):
            return self._creation.create(id, spec, records)
        raise CapabilityError(f"{id.kind.with_article} is not created from here", code="NotSupported")

    def check(self, job: JobSpec) -> None:
        """Checks a job against the capabilities, and against what the service supports; sends nothing."""
        super().check(job)
        self._creation.check(job)

    def ensure(self, needs: JobNeeds) -> Sequence[JobResource]:
        """Keeps a job's files until it is created; creates nothing, as clusters belong to the user."""
        self._check_workspace(needs.job)
        self._creation.keep(needs.files)
        listed = {item.id.name: item for item in self.jobs.list(needs.job.parent)}
        return [listed[name] for name in run_names(list(listed), needs.job.name)[-MAX_RUNS:]]

    def show(self, id: ResourceId) -> Resource:
        """The current resource; an experiment of any name exists."""
        self._check_workspace(id)
        if id.kind is Kind.JOB:
            return self.jobs.show(id)
        if id.kind is Kind.CLUSTER:
            return self.clusters.show(id)
        if id.kind is Kind.FILE_SERVER:
            raise NotFoundError(f"there is no file server {id.name}", code="FileServerNotFound")
        info = self.connection.workspace
        created = Provisioning(info.created, info.created)
        if id.kind is Kind.EXPERIMENT:
            return Experiment(id, created)
        return Workspace(id, info.location, created, info.tags)

    def list(self, parent: ResourceId, kind: Kind, page: Page | None = None) -> Listing:
        """The resources of a kind inside `parent`, oldest first."""
        if kind is not Kind.WORKSPACE:
            self._check_workspace(parent)
        # The list is always read whole; a page starts after the resource of its token.
        entries = self._list(parent, kind)
        start = _start(entries, page.after) if page and page.after else 0
        resources = [item for _, item in entries]
        if page is None or page.size is None:
            return Listing(resources[start:])
        end = start + page.size
        next_page = replace(page, after=_token(*entries[end - 1])) if end < len(entries) else None
        return Listing(resources[start:end], next_page)

    def _list(self, parent: ResourceId, kind: Kind) -> Sequence[tuple[datetime, Resource]]:
        """The resources of a kind, each with the time that it is listed by."""
        if kind is Kind.EXPERIMENT:
            return [(first, self.show(id)) for id, first in self.jobs.experiments(parent).items()]
        resources: Sequence[Resource] = ()
        if kind is Kind.JOB:
            resources = self.jobs.list(parent)
        elif kind is Kind.CLUSTER:
            resources = self.clusters.list(parent)
        elif kind is Kind.WORKSPACE:
            resources = [self.show(self._workspace)]
        return [(item.provisioning.created, item) for item in resources]

    def names(self, parent: ResourceId, kind: Kind, prefix: str = "") -> Sequence[str]:
        """The names inside `parent` with a prefix, matched case-insensitively."""
        names = [item.id.name for _, item in self._list(parent, kind)]
        return [name for name in names if name.lower().startswith(prefix.lower())]

    def status(
        self, ids: Collection[ResourceId], *, since: StatusSnapshot | None = None, wait_s: float = 0.0
    ) -> StatusSnapshot:
        """The state of jobs and clusters within the last seconds, one request each."""
        ids_here = [id for id in ids if id.workspace_id.key == self._workspace.key]
        return StatusSnapshot(
            {id.key: resource for id in ids_here if (resource := self._recent_resource(id)) is not None}
        )

    def _recent_resource(self, id: ResourceId) -> Resource | None:
        """A job or cluster as it was within its lifetime; None if it does not exist."""
        try:
            return self.recent.get(id.key, partial(self.show, id))
        except NotFoundError:
            self.recent.forget(id.key)
            return None

    def jobs_ahead_of(self, job: Resource) -> Sequence[ResourceId]:
        """Empty: the service does not report the order of its queue."""
        return ()

    def _update(self, id: ResourceId, patch: Patch) -> Resource:
        """Changes the scale of a cluster."""
        self.recent.forget(id.key)
        if id.kind is Kind.CLUSTER:
            return self.clusters.update(id, patch)
        raise CapabilityError("a workspace is tagged in Azure's portal", code="NotSupported")

    def delete(self, id: ResourceId) -> None:
        """Archives a job, or all of an experiment; deletes a cluster."""
        self._check_workspace(id)
        self.recent.forget(id.key)
        if id.kind is Kind.JOB:
            self.jobs.delete(id)
        elif id.kind is Kind.CLUSTER:
            self.clusters.delete(id)
        elif id.kind is Kind.EXPERIMENT:
            for job in self.jobs.list(id):
                self.jobs.delete(job.id)
        else:
            text = f"{id.kind.with_article} is not deleted from here"
            raise CapabilityError(text, code="NotSupported", hint="Delete it in Azure's portal.")

    def terminate(self, job: ResourceId, *, now: bool = False) -> None:
        """Cancels a job; no effect on one that has ended. The service itself decides when to kill it."""
        self.recent.forget(job.key)
        self.jobs.terminate(job)

    def nodes(self, id: ResourceId) -> Sequence[Node]:
        """The nodes of a cluster, or those that a job runs on."""
        self._check_workspace(id)
        if id.kind is not Kind.JOB:
            return self.clusters.nodes(id)
        job = self.jobs.find(id)
        if job.state is not ExecutionState.RUNNING:
            return ()
        cluster = ResourceId.parse(job.spec.cluster.id)
        return self.clusters.nodes_of_run(cluster, job.run, id, job.spec.node_count)

    def files(
        self,
        job: ResourceId,
        directory_id: str = STDOUTERR,
        path: str = "",
        *,
        expiry_min: int = 60,
        limit: int | None = None,
    ) -> Sequence[OutputFile]:
        """One level of a job's output directory, sorted by name."""
        check_inside(path)
        if directory_id != STDOUTERR:
            return self._outputs.list(self.jobs.find(job), directory_id, path, limit)
        return list_log_files(self.logs.watched(job), path, limit)

    def read(self, file: FileRef, offset: int = 0, limit: int = 1 << 20) -> Chunk:
        """At most `limit` bytes of a file from `offset`."""
        check_inside(file.path)
        if file.directory_id != STDOUTERR:
            job = self.jobs.find(file.job)
            return self._outputs.read(job, file.directory_id, file.path, offset, limit)
        return self.logs.watched(file.job).read(file.path, offset, limit)

    def tail(
        self, job: ResourceId, positions: Mapping[str, int], limit: int = 1 << 20, *, wait_s: float = 0.0
    ) -> Mapping[str, Chunk]:
        """The new bytes of all logs of a job; never waits."""
        return self.logs.watched(job).tail(positions, limit)

    def close(self) -> None:
        """Closes the connection; jobs run on."""
        self.connection.close()

    def _wait_reason(self, job: AzureJob) -> str:
        """Why a job is queued: by its status or, if it waits for nodes, by its cluster and quota."""
        if job.status not in _AWAITING_NODES:
            return WAITING.get(job.status, "")
        cluster = self._recent_resource(ResourceId.parse(job.spec.cluster.id))
        if not isinstance(cluster, Cluster):
            return "its cluster was deleted"
        if job.size:
            cluster = with_nodes(cluster, job.size, is_spot=job.is_spot)
        return self.usages.wait_reason(cluster, job.spec.node_count)

    def _check_workspace(self, id: ResourceId) -> None:
        """Raises a NotFoundError for an id in another workspace than the one in use."""
        if id.workspace_id.key != self._workspace.key:
            text = f"the workspace in use is {self._workspace.name}, not {id.workspace}"
            hint = "Choose another with --workspace, --resource-group and --subscription of `%batchai use`."
            raise NotFoundError(text, code="WorkspaceNotFound", hint=hint)

    def _life_s(self, resource: Resource) -> float:
        if isinstance(resource, JobResource):
            return self.intervals.ended_job if resource.state.is_final else self.intervals.open_job
        return self.intervals.cluster


_TOKEN = re.compile(r"(?P<created_us>\d{1,17}) (?P<key>.+)", re.ASCII)


def _token(created: datetime, resource: Resource) -> str:
    """The token of the page behind a resource."""
    return f"{round(created.timestamp() * 1e6)} {resource.id.key}"


def _start(entries: Sequence[tuple[datetime, Resource]], token: str) -> int:
    """The index where the page of a token starts; if its resource was deleted, by its creation time."""
    match = _TOKEN.fullmatch(token)
    if not match:
        raise api_errors.unknown_page(token)
    keys = [item.id.key for _, item in entries]
    if match["key"] in keys:
        return keys.index(match["key"]) + 1
    created_us = int(match["created_us"])
    later = (n for n, (created, _) in enumerate(entries) if round(created.timestamp() * 1e6) >= created_us)
    return next(later, len(entries))
