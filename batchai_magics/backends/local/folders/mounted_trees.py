"""Folders with mounts in them: unmounted, or deleted but for what is mounted, which is somebody else's."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from batchai_magics.backends.node import elevation, mount_commands

PATIENCE_S = 30.0
_UNMOUNTERS = (("umount",), ("fusermount3", "-u"), ("fusermount", "-u"), ("umount", "--lazy"))


def mount_points(below: Path) -> list[Path]:
    """Where something is mounted at `below` or deeper, innermost first; a bind mount counts too."""
    inside = str(below.resolve())
    below_it = {path for path in _all_mounts() if path == inside or path.startswith(inside + os.sep)}
    return [Path(path) for path in sorted(below_it, key=lambda path: -path.count(os.sep))]


def unmount(root: Path) -> None:
    """Unmounts all below `root`. What is in use goes when its user lets go of it."""
    for path in mount_points(root):
        any(_is_done_by(program, path) for program in _UNMOUNTERS)


def _is_done_by(program: Sequence[str], path: Path) -> bool:
    try:
        line = elevation.elevated([*program, str(path)])
        return not subprocess.run(
            line, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=PATIENCE_S
        ).returncode
    except (OSError, subprocess.TimeoutExpired):  # no such program here, or a server that does not answer
        return False


def remove(*folders: Path) -> None:
    """Deletes folders as far as they can be. Links are not followed; mounts, and what leads to them, stay."""
    mounted = set(_all_mounts())
    for folder in folders:
        with contextlib.suppress(OSError):  # not there, or not ours: nothing to delete
            path = folder.parent.resolve() / folder.name
            if str(path) not in mounted and not path.is_symlink():
                _remove_whole(path, mounted)


def _remove_whole(path: Path, mounted: set[str]) -> None:
    try:
        _remove(path, path.lstat().st_dev, mounted)
    except RecursionError:  # too deep for Python, and its paths maybe too long for the system
        if not mount_points(path):
            subprocess.run(["rm", "-rf", "--one-file-system", "--", path], capture_output=True, check=False)


def _remove(folder: Path, device: int, mounted: set[str]) -> None:
    with contextlib.suppress(OSError):  # a script may have closed it
        folder.chmod(0o700)
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
        return mount_commands.mount_points()
    import psutil

    return [part.mountpoint for part in psutil.disk_partitions(all=True)]
