"""Leftover processes of a job, found through /proc wherever they are in the process tree. Linux only."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Set
from typing import NamedTuple

MARK = "BATCHAI_JOB_GUID"  # in the environment of every process that a job starts
_ENDED = (b"Z", b"X")


class LiveProcess(NamedTuple):
    """A running process, identified by its pid and start time, because pids are reused."""

    pid: int
    started: bytes

    @property
    def is_alive(self) -> bool:
        """Whether it is still running."""
        return find(self.pid) == self

    def send(self, number: signal.Signals) -> None:
        """Signals the process, unless its pid has been reused."""
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)


def find(pid: int) -> LiveProcess | None:
    """The running process of that pid; None for a zombie."""
    fields = _stat(pid)
    return None if not fields or fields[0] in _ENDED else LiveProcess(pid, fields[19])


def marked(mark: str) -> list[LiveProcess]:
    """Every running process whose environment has this mark."""
    entry = f"{MARK}={mark}".encode()
    return [process for pid in _pids() if _has_entry(pid, entry) and (process := find(pid))]


def descendants(but: Set[int]) -> list[LiveProcess]:
    """Every running descendant of this process, a subreaper, except for these children."""
    if _children() <= but:
        return []
    children: dict[int, list[int]] = {}
    for other in _pids():
        fields = _stat(other)
        if fields:
            children.setdefault(int(fields[1]), []).append(other)
    below = [pid for pid in _below(os.getpid(), children) if pid not in but]
    return [process for pid in below if (process := find(pid))]


def _children() -> set[int]:
    """The children of this process; the process itself if they cannot be listed.

    The kernel warns that the list may be incomplete while children exit: only this process reaps them.
    Orphans not yet adopted are below a child in this list.
    """
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208 as below
        return {os.getpid()}  # each thread has its own list
    words = _read("/proc/thread-self/children", missing=str(os.getpid()).encode())
    return set(map(int, words.split()))


def _below(pid: int, children: dict[int, list[int]]) -> Iterator[int]:
    for child in children.get(pid, ()):
        yield child
        yield from _below(child, children)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 pathlib is slow


def _has_entry(pid: int, entry: bytes) -> bool:
    data = _read(f"/proc/{pid}/environ")
    return entry in data and entry in data.split(b"\0")


def _stat(pid: int) -> list[bytes]:
    """The fields after the name: state, parent, …, start time as the twentieth."""
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _read(path: str, missing: bytes = b"") -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 as above
            return file.read()
    except OSError:  # it has ended, or belongs to another user
        return missing
