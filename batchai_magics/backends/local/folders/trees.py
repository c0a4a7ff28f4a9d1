"""Deleting a folder with all in it, but for what is mounted there: that belongs to somebody else."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import psutil

from batchai_magics.backends.node import mounting


def mount_points(below: Path) -> list[Path]:
    """Where something is mounted at `below` or deeper, innermost first; a bind mount counts too."""
    inside = str(below.resolve())
    below_it = {path for path in _all_mounts() if path == inside or path.startswith(inside + os.sep)}
    return [Path(path) for path in sorted(below_it, key=lambda path: -path.count(os.sep))]


def remove(folder: Path) -> None:
    """Deletes a folder as far as it can be. Links are not followed; mounts, and what leads to them, stay."""
    mounted = {str(path) for path in mount_points(folder)}
    with contextlib.suppress(OSError):  # not there, or not ours: nothing to delete
        path = folder.parent.resolve() / folder.name
        if str(path) not in mounted and not path.is_symlink():
            _remove(path, path.lstat().st_dev, mounted)


def _remove(folder: Path, device: int, mounted: set[str]) -> None:
    with os.scandir(folder) as entries:
        children = list(entries)
    for entry in children:
        with contextlib.suppress(OSError):  # one that cannot go keeps its folder, not the others
            if not entry.is_dir(follow_symlinks=False):
                Path(entry.path).unlink()
            # The table of mounts knows bind mounts, the device what was mounted since it was read.
            elif entry.path not in mounted and entry.stat(follow_symlinks=False).st_dev == device:
                _remove(Path(entry.path), device, mounted)
    folder.rmdir()


def _all_mounts() -> list[str]:
    if sys.platform == "linux":  # where there is no /proc the device tells most
        return mounting.mount_points()
    return [part.mountpoint for part in psutil.disk_partitions(all=True)]
