"""Deleting a folder with all in it, but for what is mounted there: that belongs to somebody else."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import psutil

_TABLE = Path("/proc/self/mountinfo")
_ESCAPES = {r"\040": " ", r"\011": "\t", r"\012": "\n", r"\134": "\\"}


def mount_points(below: Path) -> list[Path]:
    """Where something is mounted at `below` or deeper, innermost first; a bind mount counts too."""
    inside = str(below.resolve())
    found = [place for place in _all_mounts() if place == inside or place.startswith(inside + os.sep)]
    return [Path(place) for place in sorted(set(found), key=lambda place: -place.count(os.sep))]


def remove(folder: Path) -> None:
    """Deletes a folder as far as it can be. Links are not followed; mounts, and what leads to them, stay."""
    mounted = {str(place) for place in mount_points(folder)}
    with contextlib.suppress(OSError):  # not there, or not ours: nothing to delete
        place = folder.parent.resolve() / folder.name
        if str(place) not in mounted and not place.is_symlink():
            _remove(place, place.lstat().st_dev, mounted)


def _remove(folder: Path, device: int, mounted: set[str]) -> None:
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        with contextlib.suppress(OSError):  # one that cannot go keeps its folder, not the others
            if not entry.is_dir(follow_symlinks=False):
                Path(entry.path).unlink()
            # The table of mounts knows bind mounts, the device what was mounted since it was read.
            elif entry.path not in mounted and entry.stat(follow_symlinks=False).st_dev == device:
                _remove(Path(entry.path), device, mounted)
    folder.rmdir()


def _all_mounts() -> Iterable[str]:
    if sys.platform != "linux":
        return [part.mountpoint for part in psutil.disk_partitions(all=True)]
    try:
        lines = _TABLE.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:  # no /proc: the device tells most
        return []
    return [_unescaped(line.split(" ", 5)[4]) for line in lines]


def _unescaped(place: str) -> str:
    for escape, sign in _ESCAPES.items():
        place = place.replace(escape, sign)
    return place
