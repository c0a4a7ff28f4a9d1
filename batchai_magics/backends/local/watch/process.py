"""Processes by an identity that survives pid reuse, and the sure end of all that a job started."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Set
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.backends.node.ranks import leftover_processes
from batchai_magics.backends.node.ranks.leftover_processes import MARK, Found
from batchai_magics.backends.node.ranks.rank import LIBC, die_with_parent

if TYPE_CHECKING:
    import psutil

GRACE_S = 1.2  # between SIGTERM and SIGKILL: a job is gone within two seconds
HAS_ORPHANS = sys.platform == "linux"  # whether `adopt_orphans` leaves nothing out of this process's tree
KILL_S = 5.0  # what SIGKILL gets to end all; what is left then waits for its disk, or is somebody else's


def identity(pid: int) -> str:
    """A name for the process that no later process has: pid, start time, boot. Empty when it is gone."""
    started = _started(pid)
    return f"{pid}:{started}:{_boot()}" if started else ""


def identity_of_child(pid: int) -> str:
    """The identity of a child that this process has just started, also when it has ended already."""
    return identity(pid) or f"{pid}:ended:{_boot()}"  # a name that no living process has


def identity_of(process: Found) -> str:
    """The same for a process that was found."""
    return f"{process.pid}:{process.started.decode()}:{_boot()}"


def is_alive(name: str) -> bool:
    """Whether the process of that identity still runs (a zombie does not)."""
    pid = name.partition(":")[0]
    return bool(pid) and identity(int(pid)) == name


def is_of_another_boot(name: str) -> bool:
    """Whether the process of that identity ran before this machine was started."""
    return name.rpartition(":")[2] != _boot()


def pid_of(name: str) -> int:
    """The pid in an identity."""
    return int(name.partition(":")[0])


def marked(mark: str) -> list[Found]:
    """Every living process whose environment has this mark, wherever it hung itself in the process tree."""
    if sys.platform == "linux":
        return leftover_processes.marked(mark)
    import psutil

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(_to_found(process))
    return found


def descendants(but: Set[int]) -> list[Found]:
    """Every living process below this one, but for these children of it; it adopts orphans."""
    if sys.platform == "linux":
        return leftover_processes.descendants(but)
    import psutil

    below = psutil.Process().children(recursive=True)
    return [_to_found(process) for process in below if process.pid not in but]


def _to_found(process: psutil.Process) -> Found:
    return Found(process.pid, str(process.create_time()).encode())


def end(find: Callable[[], Iterable[Found]], *, grace_s: float = GRACE_S) -> None:
    """SIGTERM to all that `find` finds, SIGKILL after the grace to what is left, until none is."""
    send(find(), signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while list(find()) and time.monotonic() < deadline:
        time.sleep(0.02)
    kill(find)


def kill(find: Callable[[], Iterable[Found]]) -> None:
    """SIGKILL to all that `find` finds, again for what they started meanwhile, until none is left."""
    deadline = time.monotonic() + KILL_S
    pause_s = 0.001
    while (left := list(find())) and time.monotonic() < deadline:
        send(left, signal.SIGKILL)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.1)


def send(processes: Iterable[Found], number: signal.Signals) -> None:
    """Signals these processes, and none that has got the pid of one."""
    for process in processes:
        _send_to(identity_of(process), number)


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within it, SIGTERM ends this process, whatever it does otherwise; in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def ask_to_end(name: str) -> None:
    """SIGTERM to the process of that identity; one that was stopped goes on, so that it hears it."""
    _send_to(name, signal.SIGTERM)
    resume(name)


def resume(name: str) -> None:
    """SIGCONT to the process of that identity: one that was stopped goes on, another one notices nothing."""
    _send_to(name, signal.SIGCONT)


def kill_one(name: str) -> None:
    """SIGKILL to the process of that identity, and a moment in which it goes."""
    _send_to(name, signal.SIGKILL)
    deadline = time.monotonic() + GRACE_S
    while is_alive(name) and time.monotonic() < deadline:
        time.sleep(0.02)


def _send_to(name: str, number: signal.Signals) -> None:
    if is_alive(name):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid_of(name), number)


def adopt_orphans() -> None:
    """What this process's children leave behind becomes a child of it, so that it can be ended (Linux)."""
    if LIBC:
        LIBC.prctl(36, 1, 0, 0, 0)


def reap() -> None:
    """Collects the children of this process that have ended, adopted ones too."""
    with contextlib.suppress(ChildProcessError):  # there are none
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def die_with_starter() -> None:
    """In a child, before its program: it is killed when this process goes away (Linux)."""
    die_with_parent(signal.SIGKILL)


def _started(pid: int) -> str:
    """When the living process of that pid started, in a clock that no clock change moves."""
    if sys.platform == "linux":
        found = leftover_processes.find(pid)
        return found.started.decode() if found else ""
    import psutil

    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else str(process.create_time())
    except psutil.Error:
        return ""


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        return ""


def own_identity() -> str:
    """The identity of this very process."""
    return identity(os.getpid())
