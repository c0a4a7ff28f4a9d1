"""Folders with mounts in them: unmounting, and deletion that spares what is mounted."""

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
    """Mount points at `below` or deeper, innermost first, including bind mounts."""
    inside = str(below.resolve())
    below_it = {path for path in _all_mounts() if path == inside or path.startswith(inside + os.sep)}
    return [Path(path) for path in sorted(below_it, key=lambda path: -path.count(os.sep))]


def unmount(root: Path) -> None:
    """Unmounts all below `root`; busy mounts are detached lazily."""
    for path in mount_points(root):
        any(_is_done_by(program, path) for program in _UNMOUNTERS)


def _is_done_by(program: Sequence[str], path: Path) -> bool:
    try:
        line = elevation.elevated([*program, str(path)])
        return not subprocess.run(
            line, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=PATIENCE_S
        ).returncode
    except (OSError, subprocess.TimeoutExpired):  # not installed, or the server does not answer
        return False


def remove(*folders: Path) -> None:
    """Deletes folders as far as possible; keeps mounts and their parents, and does not follow links."""
    mounted = set(_all_mounts())
    for folder in folders:
        with contextlib.suppress(OSError):  # missing or not ours
            path = folder.parent.resolve() / folder.name
            if str(path) not in mounted and not path.is_symlink():
                _remove_whole(path, mounted)


def _remove_whole(path: Path, mounted: set[str]) -> None:
    try:
        _remove(path, path.lstat().st_dev, mounted)
    except RecursionError:  # too deep for Python, and perhaps for PATH_MAX
        if not mount_points(path):
            subprocess.run(["rm", "-rf", "--one-file-system", "--", path], capture_output=True, check=False)


def _remove(folder: Path, device: int, mounted: set[str]) -> None:
    with contextlib.suppress(OSError):  # a script may have removed permissions
        folder.chmod(0o700)
    with os.scandir(folder) as entries:
        children = list(entries)
    for entry in children:
        with contextlib.suppress(OSError):  # one failure keeps its folder, not the others
            if not entry.is_dir(follow_symlinks=False):
                Path(entry.path).unlink()
            # The mount table has bind mounts; the device shows what was mounted since it was read.
            elif entry.path not in mounted and entry.stat(follow_symlinks=False).st_dev == device:
                _remove(Path(entry.path), device, mounted)
    folder.rmdir()


def _all_mounts() -> list[str]:
    if sys.platform == "linux":  # without /proc, the device shows most mounts
        return mount_commands.mount_points()
    import psutil

    return [part.mountpoint for part in psutil.disk_partitions(all=True)]
