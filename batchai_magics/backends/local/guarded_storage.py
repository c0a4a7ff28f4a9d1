"""Shares, containers and accounts, which cannot be deleted while open jobs use them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.shares import FolderStorage
from batchai_magics.backends.local.state import job_table, resource_table, stored_resources
from batchai_magics.backends.local.state.account_table import LocalAccounts
from batchai_magics.backends.local.state.job_table import JobRow
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.backends.service import api_errors
from batchai_magics.models.resource_ids import ResourceId


class GuardedStorage(FolderStorage):
    """Shares or containers, guarded against deletion while in use."""

    def __init__(self, root: Path, unfinished: Path, noun: str, *, store: Store, layout: Layout) -> None:
        super().__init__(root, unfinished, noun)
        self._store, self._layout = store, layout

    def remove(self, share: str) -> None:
        """Deletes a share and its contents; raises ConflictError while an open job uses it."""
        names = _users(self._store, self._layout, [self._existing(share)])
        if names:
            raise api_errors.share_in_use(share, names)
        super().remove(share)


class GuardedAccounts(LocalAccounts):
    """Storage accounts, guarded against deletion while in use."""

    def delete(self, name: str) -> None:
        """Deletes an account with its shares and containers; raises ConflictError while one is in use."""
        self.show(name)
        names = _users(self._store, self._layout, self._layout.of_account(name))
        if names:
            raise api_errors.account_in_use(name, names)
        super().delete(name)


def _users(store: Store, layout: Layout, places: Sequence[Path]) -> list[str]:
    """The names of open jobs that use something in these folders."""
    with store.read() as db:
        return [
            resource_table.by_key(db, job.key).id.name
            for job in job_table.all_open(db)
            if any(used.is_relative_to(place) for used in _folders(db, layout, job) for place in places)
        ]


def _folders(db: Database, layout: Layout, job: JobRow) -> list[Path]:
    """The folders of shares and containers that are mounted for a job."""
    from batchai_magics.backends.folders import mounts  # both load the models
    from batchai_magics.backends.local.state import stored_specs

    spec = stored_resources.job_spec(resource_table.by_key(db, job.key).spec)
    cluster = resource_table.find(db, ResourceId.parse(spec.cluster.id))  # jobs outlive their cluster
    cluster_spec = stored_specs.cluster_spec(cluster.spec) if cluster else None
    return mounts.used_by(layout, spec, cluster_spec)
