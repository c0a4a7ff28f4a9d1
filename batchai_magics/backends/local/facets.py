"""Facets of the local backend: node commands, preemption, setup logs, telemetry, owners, quotas, groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from batchai_magics.backends.base import Accounts, CommandOutput
from batchai_magics.backends.folders import mounts, outputs, telemetry
from batchai_magics.backends.local.state import (
    job_table,
    node_table,
    resource_table,
    stored_resources,
    stored_specs,
)
from batchai_magics.backends.local.state.account_table import LocalGroups
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import job_stopping, node_commands
from batchai_magics.backends.local.watch.reconciler import Reconciler
from batchai_magics.backends.service import api_errors, quotas
from batchai_magics.backends.service.groups import OwnGroups
from batchai_magics.models.cluster_spec import ClusterSpec, VmPriority
from batchai_magics.models.job_execution import OutputFile
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.subscription import Usage
from batchai_magics.models.telemetry_records import TelemetryRecord


class NodeCommands:
    """Commands in the folders of nodes."""

    def __init__(self, reconciler: Reconciler) -> None:
        self._reconciler = reconciler

    def execute(self, id: ResourceId, node_id: str, command: str, *, tick_s: float = 0.0) -> CommandOutput:
        """Runs a shell command on a node, in its folder and environment; streams its output."""
        self._reconciler.reconcile()
        with self._reconciler.store.read() as db:
            resource_table.get(db, id)
            if node_id not in [node.id for node in stored_resources.nodes_of(db, id)]:
                raise api_errors.node_not_found(node_id)
            guid = node_table.cluster_guid(db, node_id)
        return node_commands.run(self._reconciler.layout, guid, node_id, command, tick_s=tick_s)


class Preemption:
    """Preempts nodes of lowpriority clusters on request."""

    def __init__(self, reconciler: Reconciler) -> None:
        self._reconciler = reconciler

    def preempt(self, cluster: ResourceId, node_id: str) -> None:
        """Removes a node of a lowpriority cluster; its job is requeued, and a new node replaces it."""
        store = self._reconciler.store
        if _cluster_spec(self._reconciler, cluster).vm_priority is not VmPriority.LOW_PRIORITY:
            raise api_errors.not_low_priority(cluster)
        with store.write() as db:
            rows = {node.id: node for node in node_table.of_cluster(db, cluster.key)}
            if node_id not in rows:
                raise api_errors.node_not_found(node_id)
            stopped = node_table.preempt(db, rows[node_id])
        job_stopping.wake(store, stopped)
        self._reconciler.reconcile(is_due=True)


class SetupLogs:
    """Output of setup tasks on mounted shares."""

    def __init__(self, reconciler: Reconciler) -> None:
        self._reconciler = reconciler

    def files(self, cluster: ResourceId, path: str = "", *, expiry_min: int = 60) -> Sequence[OutputFile]:
        """One level of the setup task's output folder, sorted by name."""
        spec = _cluster_spec(self._reconciler, cluster)
        if not (spec.node_setup and spec.node_setup.setup_task):
            raise api_errors.no_setup_logs()
        return outputs.listing(mounts.setup_logs(self._reconciler.layout, spec), path)


def _cluster_spec(reconciler: Reconciler, cluster: ResourceId) -> ClusterSpec:
    reconciler.reconcile()
    with reconciler.store.read() as db:
        return stored_specs.cluster_spec(resource_table.get(db, cluster).spec)


class Telemetry:
    """Telemetry samples in job folders."""

    def __init__(self, reconciler: Reconciler) -> None:
        self._reconciler = reconciler

    def read(self, job: ResourceId, *, after: float = 0.0) -> TelemetryRecord:
        """The samples taken after `after` (Unix time)."""
        with self._reconciler.store.read() as db:
            resource_table.get(db, job)
            run = job_table.get(db, job.key)
        return telemetry.read(self._reconciler.layout.job(run.guid).telemetry, after)


class Ownership:
    """Resource owners in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def within(self, key: str) -> Mapping[str, str]:
        """The known owners of the resource with that key and of all inside it, by key."""
        with self._store.read() as db:
            return resource_table.owners(db, key)


class Usages:
    """The quotas of this machine."""

    def __init__(self, store: Store, core_quota: int) -> None:
        self._store = store
        self._core_quota = core_quota

    def list(self, location: str) -> Sequence[Usage]:
        """The usage of each quota; every location is this machine."""
        with self._store.read() as db:
            return quotas.usages(stored_specs.quota_nodes(db), self._core_quota)


def groups(reconciler: Reconciler, accounts: Accounts) -> OwnGroups:
    """The resource groups of this machine."""

    def workspaces() -> Sequence[ResourceId]:
        with reconciler.store.read() as db:
            return [row.id for row in resource_table.workspaces(db)]

    def delete(workspace: ResourceId) -> None:
        from batchai_magics.backends.local import resource_deletion

        resource_deletion.delete(reconciler, workspace)

    return OwnGroups(LocalGroups(reconciler.store), accounts, workspaces=workspaces, delete=delete)
