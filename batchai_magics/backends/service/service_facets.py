"""The facets of the service, each made on first access: commands on nodes, telemetry, records, groups.

Lists of jobs need none of them: what they import loads the models, so it is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from batchai_magics.backends.service.context import HomeContext, cluster_of
from batchai_magics.backends.service.repository import CLUSTER_GUID
from batchai_magics.backends.service.runner import ClusterRef, NodeCommand, Scale
from batchai_magics.models.resource_ids import Kind, ResourceId

if TYPE_CHECKING:
    from batchai_magics.backends.base import Accounts, CommandOutput, Groups, Storage
    from batchai_magics.backends.service.run_labels import RunRecords
    from batchai_magics.models.job_execution import OutputFile
    from batchai_magics.models.subscription import Usage
    from batchai_magics.models.telemetry_records import TelemetryRecord


def storage(context: HomeContext, kind: str, noun: str) -> Storage:
    """The shares or the containers of a home."""
    from batchai_magics.backends.folders.shares import FolderStorage

    layout = context.layout
    return FolderStorage(layout.home / kind, layout.unfinished(kind), noun, context.jobs_using)


def accounts(context: HomeContext) -> Accounts:
    """The storage accounts of a home."""
    from batchai_magics.backends.service.home_subscription import HomeAccounts

    return HomeAccounts(context.repository, context.jobs_using)


def records(context: HomeContext) -> RunRecords:
    """The records of a home's runs."""
    from batchai_magics.backends.service.run_labels import RunRecords

    return RunRecords(context)


def groups(context: HomeContext, accounts: Accounts | None) -> Groups:
    """The resource groups of a home, which are deleted with their contents."""
    from batchai_magics.backends.service import resource_changes

    return resource_changes.ServiceGroups(context, accounts)


class ServiceNodeCommands:
    """Commands on the nodes of clusters and jobs."""

    def __init__(self, context: HomeContext) -> None:
        self._context = context

    def execute(self, id: ResourceId, node_id: str, command: str, *, tick_s: float = 0.0) -> CommandOutput:
        """Runs a shell command on a node, in its folder and environment; yields output as it arrives."""
        from batchai_magics.backends.base import api_errors

        record = self._context.repository.get(id)
        if id.kind is Kind.JOB:
            cluster = ClusterRef(record.more[CLUSTER_GUID], "", "", Scale(0, 0), record.more)
        else:
            cluster = cluster_of(record)
        runs = [(run, status) for _, run, status in self._context.open_runs(cluster.guid)]
        on_node = NodeCommand(node_id, command, runs, tick_s)
        if id.kind is Kind.JOB and on_node.busy.get(node_id) != record.guid:
            raise api_errors.node_not_found(node_id)
        return self._context.runner.execute(cluster, on_node)


class ServiceSetupLogs:
    """The output of clusters' setup tasks on mounted shares."""

    def __init__(self, context: HomeContext) -> None:
        self._context = context

    def files(self, cluster: ResourceId, path: str = "", *, expiry_min: int = 60) -> Sequence[OutputFile]:
        """Lists a folder of a setup task's output, sorted by name."""
        from batchai_magics.backends.base import api_errors
        from batchai_magics.backends.folders import mounts, run_output
        from batchai_magics.backends.service import resource_views

        spec = resource_views.cluster_spec(self._context.repository.get(cluster).spec)
        logs = mounts.setup_logs(self._context.layout, spec)
        if logs is None:
            raise api_errors.no_setup_logs()
        return run_output.output_listing(logs, path)


class ServiceTelemetry:
    """Telemetry of jobs' processes."""

    def __init__(self, context: HomeContext) -> None:
        self._context = context

    def read(self, job: ResourceId, *, after: float = 0.0) -> TelemetryRecord:
        """The samples taken after the time `after`, in seconds since 1970."""
        from batchai_magics.backends.folders import rank_files

        record = self._context.repository.get(job)
        return rank_files.read_telemetry(self._context.layout.job(record.guid).telemetry, after)


class ServiceUsages:
    """The quotas of a home."""

    def __init__(self, context: HomeContext) -> None:
        self._context = context

    def list(self, location: str) -> Sequence[Usage]:
        """The usage of each quota, the same in every location."""
        from batchai_magics.backends.service.home_subscription import Nodes, quota_usages

        nodes = map(Nodes.of, self._context.repository.clusters())
        return quota_usages(nodes, self._context.core_quota)
