"""The folders of a home on this machine, where clusters and jobs may have mounted something."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from batchai_magics.backends.folders.home_directory import HomeDirectory
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.machines.machine import LocalMachine


class LocalFolders(HomeDirectory):
    """Folders that are unmounted before they are deleted."""

    def __init__(self, layout: Layout, *, setting: str) -> None:
        super().__init__(layout, LocalMachine(), setting=setting)

    def remove_cluster(self, guid: str) -> None:
        """Deletes what belongs to a cluster alone, after unmounting."""
        from batchai_magics.backends.local.folders import unmanaged_mounts

        unmanaged_mounts.remove_cluster(self._layout, guid)

    def discard_backups(self, guids: Sequence[str]) -> None:
        """Deletes the copies of jobs' rows from which a lost database is rebuilt."""
        for guid in guids:
            with contextlib.suppress(OSError):
                self._layout.job(guid).made.unlink()

    def remove_runs(self, guids: Sequence[str]) -> None:
        """Deletes the folders of runs, after unmounting."""
        from batchai_magics.backends.local.folders import unmanaged_mounts

        unmanaged_mounts.remove_jobs(self._layout, guids)
