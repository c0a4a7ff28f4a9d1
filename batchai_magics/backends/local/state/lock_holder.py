"""Which process keeps others from the database, as far as the kernel tells: Linux does, to the same user."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LOCKS = Path("/proc/locks")
_WRITER = 120  # the byte of the -shm file that who writes has locked (sqlite.org/walformat.html, 2.3.1)


class LockHolder(NamedTuple):
    """A process that has the lock. One that is stopped never lets go by itself."""

    pid: int
    name: str
    is_stopped: bool

    def __str__(self) -> str:
        return f"process {self.pid} ({self.name})"


def writer_of(database: Path) -> LockHolder | None:
    """The other process that is in a transaction which writes; None if it cannot be told."""
    return _holder(database.with_name(database.name + "-shm"), _WRITER)


def opener_in(folder: Path) -> LockHolder | None:
    """The other process that makes or opens a database there; None if it cannot be told."""
    return _holder(folder, 0)


def _holder(file: Path, byte: int) -> LockHolder | None:
    with contextlib.suppress(OSError, ValueError):  # another system, or it has ended meanwhile
        lockers = [pid for pid, first, last in _locks(file.stat().st_ino) if first <= byte <= last]
        return next(
            (_read_process(pid) for pid in lockers if pid != os.getpid() and _has_open(pid, file)), None
        )
    return None


def _locks(inode: int) -> Iterator[tuple[int, int, float]]:
    """Who has locked which bytes of files with that number for writing; those who wait are left out."""
    for line in LOCKS.read_text().splitlines():
        words = line.split()
        if words[1] != "->" and words[3] == "WRITE" and words[5].rpartition(":")[2] == str(inode):
            yield int(words[4]), int(words[6]), float("inf") if words[7] == "EOF" else int(words[7])


def _has_open(pid: int, file: Path) -> bool:
    """Whether it is that file: on some file systems the numbers of others are the same."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if descriptor.samefile(file):
                return True
    return False


def _read_process(pid: int) -> LockHolder:
    """What it is called, and no more: command lines may hold secrets."""
    _, name, rest = re.split(r" \((.*)\) ", Path(f"/proc/{pid}/stat").read_text(errors="replace"), flags=re.S)
    return LockHolder(pid, "".join(filter(str.isprintable, name)), is_stopped=rest[0] in "Tt")
