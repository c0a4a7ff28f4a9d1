"""Processes by an identity that survives pid reuse, and the sure end of all that a job started."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import psutil

from batchai_magics.backends.node.rank import MARK, die_with_parent

GRACE_S = 1.2  # between SIGTERM and SIGKILL: a job is gone within two seconds


def identity(pid: int) -> str:
    """A name for the process that no later process has: pid, start time, boot. Empty when it is gone."""
    started = _start_ticks(pid)
    return f"{pid}:{started}:{_boot()}" if started else ""


def is_alive(name: str) -> bool:
    """Whether the process of that identity still runs (a zombie does not)."""
    pid = name.partition(":")[0]
    return bool(pid) and identity(int(pid)) == name


def pid_of(name: str) -> int:
    """The pid in an identity."""
    return int(name.partition(":")[0])


def marked(guid: str) -> list[psutil.Process]:
    """Every process of the job `guid`, wherever it hung itself in the process tree."""
    ours = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == guid:
                ours.append(process)
    return ours


def end(find: Callable[[], Iterable[psutil.Process]], *, grace_s: float = GRACE_S) -> None:
    """SIGTERM to all that `find` finds, SIGKILL after the grace to what is left, until none is."""
    _send(find(), signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline:
        if not list(find()):
            return
        time.sleep(0.02)
    kill(find)


def kill(find: Callable[[], Iterable[psutil.Process]]) -> None:
    """SIGKILL to all that `find` finds, again for what they started meanwhile."""
    for _ in range(50):
        left = list(find())
        if not left:
            return
        _send(left, signal.SIGKILL)
        psutil.wait_procs(left, timeout=0.1)


def wake_on_signals() -> int:
    """A descriptor that becomes readable when a child ends or somebody asks this process to stop."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    return reader


def adopt_orphans() -> None:
    """What this process's children leave behind becomes a child of it, so that it can be ended (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def die_with_starter() -> None:
    """In a child, before its program: it is killed when this process goes away (Linux)."""
    die_with_parent(signal.SIGKILL)


def _send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _start_ticks(pid: int) -> str:
    """When the process started, in a clock that no clock change moves."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if fields[0] in "ZX" else fields[19]
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
