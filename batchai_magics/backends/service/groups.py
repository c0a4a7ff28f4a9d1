"""Resource groups of a backend that stores them itself; deleting a group deletes everything in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from batchai_magics.backends.base import Accounts
    from batchai_magics.models.resource_ids import ResourceId
    from batchai_magics.models.subscription import ResourceGroup


class GroupRecords(Protocol):
    """Stored groups, without their contents."""

    def create(self, name: str, location: str, tags: Mapping[str, str] | None = None) -> ResourceGroup:
        """Creates a group, or changes its tags."""

    def show(self, name: str) -> ResourceGroup:
        """The group of that name; NotFoundError if it does not exist."""

    def list(self) -> Sequence[ResourceGroup]:
        """All groups, sorted by name."""

    def delete_record(self, name: str) -> None:
        """Deletes the record of a group whose contents are gone."""


class GroupStore(GroupRecords, Protocol):
    """The same for a backend that creates the group of each new workspace."""

    def ensure(self, name: str, location: str) -> None:
        """Creates a group unless it exists."""


class OwnGroups:
    """Resource groups with their contents: `workspaces` lists those of all groups, `delete` deletes one."""

    def __init__(
        self,
        rows: GroupRecords,
        accounts: Accounts | None,
        *,
        workspaces: Callable[[], Iterable[ResourceId]],
        delete: Callable[[ResourceId], None],
    ) -> None:
        self._rows, self._accounts = rows, accounts
        self._workspaces, self._delete_workspace = workspaces, delete

    def create(self, name: str, location: str, tags: Mapping[str, str] | None = None) -> ResourceGroup:
        """Creates a group, or changes its tags."""
        return self._rows.create(name, location, tags)

    def show(self, name: str) -> ResourceGroup:
        """The group of that name."""
        return self._rows.show(name)

    def list(self) -> Sequence[ResourceGroup]:
        """All groups, sorted by name."""
        return self._rows.list()

    def delete(self, name: str) -> None:
        """Deletes a group with all its workspaces and storage accounts; jobs are ended first."""
        self.show(name)
        for workspace in self._workspaces():
            if workspace.group.lower() == name.lower():
                self._delete_workspace(workspace)
        if self._accounts:
            for account in self._accounts.list(name):
                self._accounts.delete(account.name)
        self._rows.delete_record(name)
