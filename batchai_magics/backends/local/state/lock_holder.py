"""The process that holds the database lock, from /proc: Linux only, and the same user's processes."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LOCKS = Path("/proc/locks")
_WRITER = 120  # the byte of the -shm file that a writer locks (sqlite.org/walformat.html, 2.3.1)


class LockHolder(NamedTuple):
    """A process that holds the lock; a stopped one never releases it."""

    pid: int
    name: str
    is_stopped: bool

    def __str__(self) -> str:
        return f"process {self.pid} ({self.name})"


def writer_of(database: Path) -> LockHolder | None:
    """The other process in a write transaction; None if unknown."""
    return _holder(database.with_name(database.name + "-shm"), _WRITER)


def opener_in(folder: Path) -> LockHolder | None:
    """The other process that creates or opens a database there; None if unknown."""
    return _holder(folder, 0)


def _holder(file: Path, byte: int) -> LockHolder | None:
    with contextlib.suppress(OSError, ValueError):  # not Linux, or the process has ended
        lockers = [pid for pid, first, last in _locks(file.stat().st_ino) if first <= byte <= last]
        return next(
            (_read_process(pid) for pid in lockers if pid != os.getpid() and _has_open(pid, file)), None
        )
    return None


def _locks(inode: int) -> Iterator[tuple[int, int, float]]:
    """(pid, first, last) of each write lock held on the inode; waiters are left out."""
    for line in LOCKS.read_text().splitlines():
        words = line.split()
        if words[1] != "->" and words[3] == "WRITE" and words[5].rpartition(":")[2] == str(inode):
            yield int(words[4]), int(words[6]), float("inf") if words[7] == "EOF" else int(words[7])


def _has_open(pid: int, file: Path) -> bool:
    """Whether the process has the file open: some file systems reuse inode numbers."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if descriptor.samefile(file):
                return True
    return False


def _read_process(pid: int) -> LockHolder:
    """The process's name; not its command line, which may hold secrets."""
    _, name, rest = re.split(r" \((.*)\) ", Path(f"/proc/{pid}/stat").read_text(errors="replace"), flags=re.S)
    return LockHolder(pid, "".join(filter(str.isprintable, name)), is_stopped=rest[0] in "Tt")
