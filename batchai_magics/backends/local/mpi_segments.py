"""Shared memory segments that killed MPICH ranks leave in /dev/shm, which would fill up."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path("/dev/shm")
PROCESSES = Path("/proc")
_ALL_USERS = ["0", "0", str(2**32 - 1)]
_NAME = r"mpich_shm_\w+|([0-9]+):[0-9]+:[0-9]+"  # of MPICH, and of libfabric: process, domain, endpoint
_IN_USE = re.compile(rf"/dev/shm/({_NAME})(?: |$)", re.MULTILINE)


def sweep() -> None:
    """Deletes this user's segments that no process uses, if that can be determined."""
    for name in _unused():
        with contextlib.suppress(OSError):  # another process was faster
            (FOLDER / name).unlink()


def _unused() -> set[str]:
    left = {path.name for path in _own_segments() if not _is_of_a_living_process(path.name)}
    return left - used if left and (used := _used()) is not None else set()


def _own_segments() -> Iterator[Path]:
    files = FOLDER.iterdir() if FOLDER.is_dir() else ()
    return (path for path in files if re.fullmatch(_NAME, path.name) and _is_own(path))


def _is_own(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.stat().st_uid == os.getuid()
    return False


def _is_of_a_living_process(name: str) -> bool:
    """Whether a libfabric segment names a live process; peers open it on first contact."""
    process = name.partition(":")[0]
    return process.isdecimal() and (PROCESSES / process).exists()


def _used() -> set[str] | None:
    """Segments that processes have open or mapped; None if a user namespace hides this user's processes."""
    names: set[str] = set()
    is_below = _is_below()
    for folder in PROCESSES.glob("[0-9]*"):
        try:
            names |= _used_by(folder)
        except PermissionError:
            if is_below and _is_own(folder):
                return None
        except OSError:  # it ended meanwhile
            continue
    return names


def _used_by(process: Path) -> set[str]:
    """Reads descriptors first, since a segment is opened, mapped, then closed, maybe between the reads."""
    targets: list[str] = []
    for descriptor in (process / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            targets.append(os.fsdecode(descriptor.readlink()))
    mapped = (process / "maps").read_bytes().decode(errors="replace")
    return {match[1] for match in _IN_USE.finditer("\n".join([*targets, mapped]))}


def _is_below() -> bool:
    """Whether this process is in its own user namespace, where it may be root without rights outside."""
    with contextlib.suppress(OSError):
        return (PROCESSES / "self/uid_map").read_text().split() != _ALL_USERS
    return False
