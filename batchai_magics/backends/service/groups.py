"""The resource groups of a backend that keeps its own: with a group goes all that is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from batchai_magics.backends.base import Accounts
    from batchai_magics.models.resource_ids import ResourceId
    from batchai_magics.models.subscription import ResourceGroup


class GroupRows(Protocol):
    """The groups as a backend keeps them, without what is in them."""

    def create(self, name: str, location: str, tags: Mapping[str, str] | None = None) -> ResourceGroup:
        """Makes a group, or changes its tags."""

    def show(self, name: str) -> ResourceGroup:
        """The group of that name; NotFoundError when there is none."""

    def list(self) -> Sequence[ResourceGroup]:
        """All groups, by name."""

    def forget(self, name: str) -> None:
        """Forgets a group whose contents are gone."""


class GroupStore(GroupRows, Protocol):
    """The same, for a backend that makes the group of each new workspace."""

    def ensure(self, name: str, location: str) -> None:
        """Makes a group unless it exists."""


class OwnGroups:
    """Resource groups, and what goes with them: `workspaces` gives those of all groups, `delete` ends one."""

    def __init__(
        self,
        rows: GroupRows,
        accounts: Accounts | None,
        *,
        workspaces: Callable[[], Iterable[ResourceId]],
        delete: Callable[[ResourceId], None],
    ) -> None:
        self._rows, self._accounts = rows, accounts
        self._workspaces, self._delete_workspace = workspaces, delete

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
        for workspace in self._workspaces():
            if workspace.group.lower() == name.lower():
                self._delete_workspace(workspace)
        if self._accounts:
            for account in self._accounts.list(name):
                self._accounts.delete(account.name)
        self._rows.forget(name)
