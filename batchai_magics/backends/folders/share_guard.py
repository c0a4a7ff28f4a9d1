"""Protects shares, containers and accounts that jobs use from deletion."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from batchai_magics.backends.folders import mounts
from batchai_magics.backends.folders.home_accounts import HomeAccounts, HomeGroups, Rows
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.shares import FolderStorage
from batchai_magics.backends.service import api_errors, recorded_job, resource_views
from batchai_magics.backends.service.context import Context, HomeStorage
from batchai_magics.backends.service.home_folders import CLUSTER_SPEC
from batchai_magics.backends.service.repository import Record


class ShareUsers:
    """Finds which open jobs use which folders of a home."""

    def __init__(self, layout: Layout, context: Context) -> None:
        self.layout, self._context = layout, context

    def of(self, folders: Sequence[Path]) -> list[str]:
        """The names of the open jobs that use one of these folders."""
        return [job.resource_id.name for job in self._open_jobs if self._uses(job, folders)]

    @property
    def _open_jobs(self) -> list[Record]:
        return [job for job, _, _ in self._context.all_open_runs()]

    def _uses(self, job: Record, folders: Sequence[Path]) -> bool:
        text = job.more.get(CLUSTER_SPEC)  # none of a job whose cluster an earlier version deleted
        cluster = resource_views.cluster_spec(text) if text else None
        used = mounts.used_by(self.layout, recorded_job.job_spec(job.spec), cluster)
        return any(path.is_relative_to(folder) for path in used for folder in folders)


class GuardedStorage(FolderStorage):
    """The shares or containers of a home, protected while jobs use them."""

    def __init__(self, root: Path, unfinished: Path, noun: str, *, users: ShareUsers) -> None:
        super().__init__(root, unfinished, noun)
        self._users = users

    def remove(self, share: str) -> None:
        """Deletes a share with its contents; ConflictError while an open job uses it."""
        names = self._users.of([self._existing(share)])
        if names:
            raise api_errors.share_in_use(share, names)
        super().remove(share)


class GuardedAccounts(HomeAccounts):
    """The storage accounts of a home, protected while jobs use their contents."""

    def __init__(self, layout: Layout, groups: HomeGroups, rows: Rows, *, users: ShareUsers) -> None:
        super().__init__(layout, groups, rows)
        self._users = users

    def delete(self, name: str) -> None:
        """Deletes an account with its shares and containers; ConflictError while an open job uses one."""
        self.show(name)
        names = self._users.of(self._users.layout.of_account(name))
        if names:
            raise api_errors.account_in_use(name, names)
        super().delete(name)


def home_storage(layout: Layout, context: Context, groups: HomeGroups, rows: Rows) -> HomeStorage:
    """The shares, containers and accounts of a home, guarded against deletion while jobs use them.

    `rows` are those of the accounts.
    """
    users = ShareUsers(layout, context)

    def folders(kind: str, noun: str) -> GuardedStorage:
        return GuardedStorage(layout.home / kind, layout.unfinished(kind), noun, users=users)

    accounts = GuardedAccounts(layout, groups, rows, users=users)
    return HomeStorage(folders("shares", "share"), folders("containers", "container"), accounts)
