"""What the local backend has beside its core: commands on nodes, preemption, quotas, groups, setup logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from batchai_magics.backends.base import CommandOutput, OutputFile, ResourceGroup, Usage
from batchai_magics.backends.local.folders import mounts, outputs
from batchai_magics.backends.local.state import nodes, showing
from batchai_magics.backends.local.state.accounts import LocalGroups
from batchai_magics.backends.local.watch import execution, stopping
from batchai_magics.backends.service import quotas, refusals
from batchai_magics.models.cluster import VmPriority
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.resources import Cluster

if TYPE_CHECKING:
    from batchai_magics.backends.local.backend import LocalBackend


class NodeCommands:
    """Commands in the folders of nodes."""

    def __init__(self, backend: LocalBackend) -> None:
        self._backend = backend

    def execute(self, id: ResourceId, node_id: str, command: str) -> CommandOutput:
        """Runs a shell command on a node, in its folder and environment; gives its output as it comes."""
        backend = self._backend
        if node_id not in [node.id for node in backend.nodes(id)]:
            raise refusals.node_not_found(node_id)
        with backend.store.read() as db:
            guid = nodes.cluster_guid(db, node_id)
        return execution.run(backend.layout, guid, node_id, command)


class Preemption:
    """Nodes of lowpriority clusters that are taken away when somebody says so."""

    def __init__(self, backend: LocalBackend) -> None:
        self._backend = backend

    def preempt(self, cluster: ResourceId, node_id: str) -> None:
        """Takes a node of a lowpriority cluster away; its job is queued again, another node comes."""
        backend = self._backend
        found = backend.show(cluster)
        if not isinstance(found, Cluster) or found.spec.vm_priority is not VmPriority.LOW_PRIORITY:
            raise refusals.not_low_priority(found.id)
        with backend.store.write() as db:
            rows = {node.id: node for node in nodes.of_cluster(db, found.id.key)}
            if node_id not in rows:
                raise refusals.node_not_found(node_id)
            stopped = nodes.preempt(db, rows[node_id])
        stopping.wake(backend.store, stopped)
        backend.settle(is_due=True)


class SetupLogs:
    """What setup tasks wrote to mounted shares."""

    def __init__(self, backend: LocalBackend) -> None:
        self._backend = backend

    def files(self, cluster: ResourceId, path: str = "", *, expiry_min: int = 60) -> Sequence[OutputFile]:
        """One level of what a cluster's setup task wrote, sorted by name."""
        found = self._backend.show(cluster)
        assert isinstance(found, Cluster)
        setup = found.spec.node_setup
        if not (setup and setup.setup_task):
            raise refusals.no_setup_logs()
        return outputs.listing(mounts.setup_logs(self._backend.layout, found.spec), path)


class Usages:
    """The quotas of this machine."""

    def __init__(self, backend: LocalBackend) -> None:
        self._backend = backend

    def list(self, location: str) -> Sequence[Usage]:
        """What is used of each quota; this machine is every location."""
        with self._backend.store.read() as db:
            return quotas.usages(showing.quota_nodes(db), self._backend.limits.core_quota)


class Groups:
    """The resource groups of this machine, and what goes with them."""

    def __init__(self, backend: LocalBackend) -> None:
        self._backend = backend
        self._rows = LocalGroups(backend.store)

    def create(self, name: str, location: str, tags: Mapping[str, str] | None = None) -> ResourceGroup:
        """Makes a group, or changes its tags."""
        return self._rows.create(name, location, tags)

    def show(self, name: str) -> ResourceGroup:
        """The group of that name."""
        return self._rows.show(name)

    def list(self) -> Sequence[ResourceGroup]:
        """All groups, by name."""
        return self._rows.list()

    def delete(self, name: str) -> None:
        """Deletes a group with all workspaces and storage accounts in it; jobs are ended first."""
        self.show(name)
        backend = self._backend
        for workspace in backend.workspaces():
            if workspace.group.lower() == name.lower():
                backend.delete(workspace)
        for account in backend.accounts.list(name):
            backend.accounts.delete(account.name)
        self._rows.forget(name)
