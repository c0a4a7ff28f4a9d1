"""Processes and shared memory that killed ranks leave behind, and the watchdog that ends them. Linux only."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import struct
import sys
from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MARK = "BATCHAI_JOB_GUID"  # in the environment of every process that a job starts
LEFTOVER_S = 1.2  # between SIGTERM and SIGKILL for processes that outlive the ranks, or a failed rank
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


def mount_mark(guid: str) -> str:
    """The mark of mount commands and their daemons, distinct from the mark of the job's own processes."""
    return f"{guid}/mounts"


def find(pid: int) -> LiveProcess | None:
    """The running process of that pid; None for a zombie."""
    fields = stat_fields(pid)
    return None if not fields or fields[0] in _ENDED else LiveProcess(pid, fields[19])


def marked(mark: str) -> list[LiveProcess]:
    """Every running process whose environment has this mark."""
    entry = f"{MARK}={mark}".encode()
    pids = [pid for pid in _pids() if entry in read_proc(f"/proc/{pid}/environ").split(b"\0")]
    return [process for pid in pids if (process := find(pid))]


def descendants(but: Set[int] = frozenset()) -> list[LiveProcess]:
    """Every running descendant of this process, a subreaper, except for these children, its helpers."""
    if _children() <= but:
        return []
    children: dict[int, list[int]] = {}
    for pid in _pids():
        fields = stat_fields(pid)
        if fields:
            children.setdefault(int(fields[1]), []).append(pid)
    pids = [pid for pid in _descendant_pids(os.getpid(), children) if pid not in but]
    return [process for pid in pids if (process := find(pid))]


def _children() -> set[int]:
    """The children of this process; the process itself if they cannot be listed.

    The kernel warns that the list may be incomplete while children exit: only this process reaps them.
    Orphans not yet adopted are below a child in this list.
    """
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208 as below
        return {os.getpid()}  # each thread has its own list
    words = read_proc("/proc/thread-self/children", missing=str(os.getpid()).encode())
    return set(map(int, words.split()))


def _descendant_pids(pid: int, children: dict[int, list[int]]) -> Iterator[int]:
    for child in children.get(pid, ()):
        yield child
        yield from _descendant_pids(child, children)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 pathlib is slow


def stat_fields(pid: int) -> list[bytes]:
    """The fields of a process after its name: state, parent, group, …, start time as the twentieth."""
    return read_proc(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def read_proc(path: str, missing: bytes = b"") -> bytes:
    """The content of a file in /proc; `missing` if its process has ended or belongs to another user."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 as above
            return file.read()
    except OSError:
        return missing


SHARED_MEMORY = Path("/dev/shm")
PROCESSES = Path("/proc")
_ALL_USERS = ["0", "0", str(2**32 - 1)]
_NAME = r"mpich_shm_\w+|([0-9]+):[0-9]+:[0-9]+"  # of MPICH, and of libfabric: process, domain, endpoint
_IN_USE = rf"(?m)/dev/shm/({_NAME})(?: |$)"


def sweep_segments() -> None:
    """Deletes this user's segments that no process uses, if that can be determined."""
    files = SHARED_MEMORY.iterdir() if SHARED_MEMORY.is_dir() else ()
    names = [path.name for path in files if re.fullmatch(_NAME, path.name) and _is_own(path)]
    # libfabric names a segment after a process, whose peers open it on first contact
    orphaned = {name for name in names if not (PROCESSES / name.partition(":")[0]).exists()}
    for name in orphaned - used if orphaned and (used := _used_segments()) is not None else set():
        with contextlib.suppress(OSError):  # another process was faster
            (SHARED_MEMORY / name).unlink()


def _is_own(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.stat().st_uid == os.getuid()
    return False


def _used_segments() -> set[str] | None:
    """Segments that processes have open or mapped; None if a user namespace hides this user's processes."""
    names: set[str] = set()
    is_in_namespace = _is_in_user_namespace()
    for folder in PROCESSES.glob("[0-9]*"):
        try:
            targets: list[str] = []
            for descriptor in (folder / "fd").iterdir():
                with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                    targets.append(os.fsdecode(descriptor.readlink()))
            mapped = (folder / "maps").read_bytes().decode(errors="replace")
            names |= {match[1] for match in re.finditer(_IN_USE, "\n".join([*targets, mapped]))}
        except PermissionError:
            if is_in_namespace and _is_own(folder):
                return None
        except OSError:  # it ended meanwhile
            continue
    return names


def _is_in_user_namespace() -> bool:
    """Whether this process is in its own user namespace, where it may be root without rights outside."""
    with contextlib.suppress(OSError):
        return (PROCESSES / "self/uid_map").read_text().split() != _ALL_USERS
    return False


_MESSAGE = struct.Struct("<i")  # a process group; negative: it has ended; 0: nothing is left to guard
_ROUNDS = 50
_OPEN_FILES = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"


class Guard:
    """The watchdog: a fork that sleeps until this process dismisses it or dies, and then ends its ranks."""

    def __init__(self, mark: str) -> None:
        reader, self._writer = os.pipe()
        self.pid = run_in_fork(lambda: _watch(reader, mark), signal.SIG_IGN, keep=reader)
        os.close(reader)

    def add(self, group: int) -> None:
        """Adds a process group, to be killed with this process."""
        self._send(group)

    def remove(self, group: int) -> None:
        """Removes a group that has ended."""
        self._send(-group)

    def dismiss(self) -> None:
        """Stops the watchdog: nothing is left to guard."""
        self._send(0)
        os.close(self._writer)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _send(self, message: int) -> None:
        with suppress(BrokenPipeError):  # it was killed; the processes' parent-death signal still works
            os.write(self._writer, _MESSAGE.pack(message))


def run_in_fork(work: Callable[[], None], on_signal: signal.Handlers, *, keep: int = -1) -> int:
    """Starts `work` in a fork, which exits without clean-up; returns its pid.

    Of this program's descriptors, the fork keeps only `keep`; its output is discarded. `on_signal` handles
    SIGTERM, SIGINT and SIGHUP.
    """
    if pid := os.fork():
        return pid
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, on_signal)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Only the open descriptors, not all possible ones: containers allow a billion, and not every C
        # library can close a range at once.
        if keep:
            with suppress(OSError):  # frees one for the listing, if the limit of open files is reached
                os.close(0)
        for descriptor in map(int, os.listdir(_OPEN_FILES)):  # noqa: PTH208 as above
            with suppress(OSError):  # the descriptor of the listing itself
                if descriptor != keep:
                    os.close(descriptor)
        for _ in ("stdin", "stdout", "stderr"):
            os.open(os.devnull, os.O_RDWR)
        work()
    finally:
        os._exit(0)


def _watch(reader: int, mark: str) -> None:
    groups: set[int] = set()
    unparsed = b""
    while data := os.read(reader, 1 << 12):
        messages = (unparsed + data)[: (len(unparsed) + len(data)) // _MESSAGE.size * _MESSAGE.size]
        unparsed = (unparsed + data)[len(messages) :]
        for (message,) in _MESSAGE.iter_unpack(messages):
            if not message:
                return
            groups = groups | {message} if message > 0 else groups - {-message}
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    for _ in range(_ROUNDS):
        remaining = marked(mark)
        if not remaining:
            return
        for process in remaining:
            process.send(signal.SIGKILL)
