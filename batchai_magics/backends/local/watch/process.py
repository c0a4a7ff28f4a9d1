"""Process identities that survive pid reuse, and the processes of a job."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.backends.node.ranks import leftovers, termination
from batchai_magics.backends.node.ranks.leftovers import LEFTOVER_S, MARK, LiveProcess

if TYPE_CHECKING:
    import psutil

    from batchai_magics.backends.node.ranks.ranks import Ranks

HAS_ORPHANS = sys.platform == "linux"  # whether orphans become children of this process


def identity(pid: int) -> str:
    """A unique name for the process: pid, start time, boot id. Empty if it is gone."""
    if sys.platform == "linux":  # by a clock that is never adjusted
        found = leftovers.find(pid)
        started = found.started.decode() if found else ""
    else:
        import psutil

        try:
            process = psutil.Process(pid)
            started = "" if process.status() == psutil.STATUS_ZOMBIE else str(process.create_time())
        except psutil.Error:
            started = ""
    return f"{pid}:{started}:{_boot()}" if started else ""


def identity_of_child(pid: int) -> str:
    """The identity of a child just started, even if it has exited already."""
    return identity(pid) or f"{pid}:ended:{_boot()}"  # matches no live process


def identity_of(process: LiveProcess) -> str:
    """The identity of a process found by `marked` or `descendants`."""
    return f"{process.pid}:{process.started.decode()}:{_boot()}"


def is_alive(name: str) -> bool:
    """Whether the process of that identity still runs (a zombie does not)."""
    pid = name.partition(":")[0]
    return bool(pid) and identity(int(pid)) == name


def is_of_another_boot(name: str) -> bool:
    """Whether the process of that identity ran before the last reboot."""
    return name.rpartition(":")[2] != _boot()


def pid_of(name: str) -> int:
    """The pid in an identity."""
    return int(name.partition(":")[0])


def marked(mark: str) -> list[LiveProcess]:
    """Every live process with this mark in its environment, wherever it is in the process tree."""
    if sys.platform == "linux":
        return leftovers.marked(mark)
    import psutil

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(_to_found(process))
    return found


def descendants() -> list[LiveProcess]:
    """Every live descendant of this process, which adopts orphans."""
    if sys.platform == "linux":
        return termination.live_descendants()
    import psutil

    return [_to_found(process) for process in psutil.Process().children(recursive=True)]


def processes_of(ranks: Ranks) -> list[LiveProcess]:
    """The processes of a plan and everything they started, also in containers."""
    return termination.processes_of(ranks) if HAS_ORPHANS else marked(ranks.plan.guid)


class _PsutilProcess(LiveProcess):
    """A running process of a system without /proc."""

    @property
    def is_alive(self) -> bool:
        """Whether it is still running."""
        return is_alive(identity_of(self))


def _to_found(process: psutil.Process) -> LiveProcess:
    return _PsutilProcess(process.pid, str(process.create_time()).encode())


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Restores the default action of SIGTERM within the block; main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def ask_to_end(name: str) -> None:
    """SIGTERM to the process of that identity, then SIGCONT in case it was stopped."""
    _send_to(name, signal.SIGTERM)
    resume(name)


def resume(name: str) -> None:
    """SIGCONT to the process of that identity; no effect unless it was stopped."""
    _send_to(name, signal.SIGCONT)


def kill_one(name: str) -> None:
    """SIGKILL to the process of that identity; waits briefly for its end."""
    _send_to(name, signal.SIGKILL)
    deadline = time.monotonic() + LEFTOVER_S
    while is_alive(name) and time.monotonic() < deadline:
        time.sleep(0.02)


def _send_to(name: str, number: signal.Signals) -> None:
    if is_alive(name):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid_of(name), number)


def reap() -> None:
    """Reaps children of this process that have exited, adopted ones too."""
    with contextlib.suppress(ChildProcessError):  # there are none
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        return ""


def own_identity() -> str:
    """The identity of this process."""
    return identity(os.getpid())
