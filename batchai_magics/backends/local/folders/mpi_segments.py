"""What MPICH's ranks leave in the machine's shared memory when they are killed: it fills up, job by job."""

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
    """Deletes the segments of this user that no process has any more, if that can be told."""
    for name in _unused():
        with contextlib.suppress(OSError):  # somebody else was faster
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
    """Whether a segment of libfabric names a process that is there: others open it when they first talk."""
    process = name.partition(":")[0]
    return process.isdecimal() and (PROCESSES / process).exists()


def _used() -> set[str] | None:
    """What processes have open or mapped; None where this user's cannot be asked: from a namespace below."""
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
    """The descriptors come first: a segment is opened, mapped, then closed, maybe between the two looks."""
    targets: list[str] = []
    for descriptor in (process / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            targets.append(os.fsdecode(descriptor.readlink()))
    mapped = (process / "maps").read_bytes().decode(errors="replace")
    return {match[1] for match in _IN_USE.finditer("\n".join([*targets, mapped]))}


def _is_below() -> bool:
    """Whether this process is in a user namespace of its own, where it may be root and has no say outside."""
    with contextlib.suppress(OSError):
        return (PROCESSES / "self/uid_map").read_text().split() != _ALL_USERS
    return False
