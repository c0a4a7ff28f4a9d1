"""What MPICH leaves in the machine's shared memory when its ranks are killed: it fills up, job by job."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

FOLDER = Path("/dev/shm")
_SEGMENT = re.compile(rb"/dev/shm/(mpich_shm_\w+)")
SETTLE_S = 0.1  # between two looks: who makes a segment has it mapped by then


def sweep() -> None:
    """Deletes the segments of this user that no process has any more."""
    left = _unused()
    if left:
        time.sleep(SETTLE_S)
        for name in left & _unused():
            with contextlib.suppress(OSError):  # somebody else was faster
                (FOLDER / name).unlink()


def _unused() -> set[str]:
    own = {path.name for path in FOLDER.glob("mpich_shm_*") if _is_own(path)}
    return own - _used() if own else own


def _is_own(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.stat().st_uid == os.getuid()
    return False


def _used() -> set[str]:
    names: set[str] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is somebody else's and has none of ours
            names |= {name.decode() for name in _SEGMENT.findall(maps.read_bytes())}
    return names
