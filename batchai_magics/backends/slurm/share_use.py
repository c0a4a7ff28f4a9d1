"""Shares, containers and accounts that jobs use: they are not deleted under them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from batchai_magics.backends.folders import mounts
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.shares import FolderStorage
from batchai_magics.backends.service import refusals
from batchai_magics.backends.slurm import showing
from batchai_magics.backends.slurm.accounts import SlurmAccounts, SlurmGroups
from batchai_magics.backends.slurm.clusters import Clusters


class Users:
    """Who of a home's jobs uses which of its folders."""

    def __init__(self, layout: Layout, clusters: Clusters) -> None:
        self.layout, self._clusters = layout, clusters

    def of(self, places: Sequence[Path]) -> list[str]:
        """The names of the jobs that have not ended and use something in these folders."""
        names = []
        for run in self._clusters.all_open_runs():
            cluster = showing.cluster_spec(run.job.more["cluster_spec"])
            used = mounts.used_by(self.layout, showing.job_spec(run.job.spec), cluster)
            if any(folder.is_relative_to(place) for folder in used for place in places):
                names.append(run.job.resource_id.name)
        return names


class GuardedStorage(FolderStorage):
    """The shares, or the containers, of a home, and who of its jobs uses them."""

    def __init__(self, root: Path, unfinished: Path, noun: str, *, users: Users) -> None:
        super().__init__(root, unfinished, noun)
        self._users = users

    def remove(self, share: str) -> None:
        """Deletes a share with all in it; ConflictError while a job that has not ended uses it."""
        names = self._users.of([self._existing(share)])
        if names:
            raise refusals.share_in_use(share, names)
        super().remove(share)


class GuardedAccounts(SlurmAccounts):
    """The storage accounts of a home, and who of its jobs uses what is in them."""

    def __init__(self, layout: Layout, groups: SlurmGroups, *, users: Users) -> None:
        super().__init__(layout, groups)
        self._users = users

    def delete(self, name: str) -> None:
        """Deletes an account with its shares and containers; ConflictError while a job uses one of them."""
        self.show(name)
        names = self._users.of(self._users.layout.of_account(name))
        if names:
            raise refusals.account_in_use(name, names)
        super().delete(name)
