"""The context of a command: settings, backend, and the resource ids that its names resolve to."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

from batchai_magics.backends.base import ACCOUNTS, CONTAINERS, GROUPS, STORAGE
from batchai_magics.errors import NotFoundError
from batchai_magics.models.resource_ids import Kind, ResourceId, check_name, cluster_id, of_kind, workspace_id

if TYPE_CHECKING:
    from batchai_magics.backends.base import Accounts, Backend, Groups, Storage
    from batchai_magics.config import Settings
    from batchai_magics.models.resources import Workspace


@dataclass(frozen=True)
class Context:
    """The settings that a command runs with; they supply the names that its line leaves out."""

    settings: Settings

    @cached_property
    def backend(self) -> Backend:
        """The backend, opened on first use."""
        from batchai_magics.backends.base.backend_registry import open_backend

        return open_backend(self.settings)

    def reconcile(self) -> None:
        """Has the backend, if it is open, do what a dead process left undone."""
        if "backend" in vars(self):
            self.backend.reconcile()

    @property
    def storage(self) -> Storage:
        """The backend's file shares."""
        return STORAGE.of(self.backend)

    @property
    def containers(self) -> Storage:
        """The backend's blob containers."""
        return CONTAINERS.of(self.backend)

    @property
    def accounts(self) -> Accounts:
        """The backend's storage accounts."""
        return ACCOUNTS.of(self.backend)

    @property
    def groups(self) -> Groups:
        """The backend's resource groups."""
        return GROUPS.of(self.backend)

    def group_location(self, group: str) -> str:
        """The location of a resource group; if it does not exist, the settings' location."""
        try:
            return self.groups.show(group).location
        except NotFoundError:
            return self.settings.location

    def workspace_location(self, id: ResourceId) -> str:
        """The location of a resource's workspace, existing or about to be created."""
        try:
            return cast("Workspace", self.backend.show(id.workspace_id)).location
        except NotFoundError:
            return self.settings.location

    def ensure_workspace(self, id: ResourceId) -> None:
        """Creates the session's default workspace on first use; any other must exist."""
        if id.workspace == self.settings.workspace and not self.exists(id.workspace_id):
            from batchai_magics.models.resources import WorkspaceSpec

            self.backend.create(id.workspace_id, WorkspaceSpec(location=self.settings.location))

    def exists(self, id: ResourceId) -> bool:
        """Whether the resource exists."""
        try:
            self.backend.show(id)
        except NotFoundError:
            return False
        return True

    def settings_for(self, arguments: Namespace) -> Settings:
        """The settings, overridden by the options of the line."""
        names = {
            "subscription": getattr(arguments, "subscription", None),
            "resource_group": getattr(arguments, "resource_group", None),
            "workspace": getattr(arguments, "workspace", None),
            "experiment": getattr(arguments, "experiment", None),
        }
        return replace(self.settings, **{name: value for name, value in names.items() if value})

    def workspace(self, arguments: Namespace) -> ResourceId:
        """The id of the workspace that a line refers to."""
        return workspace_id(self.settings_for(arguments))

    def experiment(self, arguments: Namespace) -> ResourceId:
        """The id of the experiment that a line refers to."""
        settings = self.settings_for(arguments)
        return workspace_id(settings).child(Kind.EXPERIMENT, check_name(settings.experiment, Kind.EXPERIMENT))

    def cluster(self, arguments: Namespace) -> ResourceId:
        """The id of the cluster that a line names with `--cluster`."""
        return cluster_id(arguments.cluster, self.workspace(arguments))

    def target(self, arguments: Namespace, kind: Kind) -> ResourceId:
        """The id of the resource that a line names with `--name`, `--job` or `--ids`."""
        ids = getattr(arguments, "ids", None)
        if ids:
            return of_kind(ResourceId.parse(ids[0]), kind)
        name = getattr(arguments, "name", None)
        name = check_name(getattr(arguments, "job", "") if name is None else name, kind)
        if kind is Kind.WORKSPACE:
            settings = self.settings_for(arguments)
            return workspace_id(settings, name)
        parent = self.experiment(arguments) if kind is Kind.JOB else self.workspace(arguments)
        return parent.child(kind, name)
