"""A watchdog that ends what a process started when that process disappears, for whatever reason."""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from batchai_magics.backends.node.ranks import leftovers

_MESSAGE = struct.Struct("<i")  # a process group; negative: it has ended; 0: nothing is left to guard
_ROUNDS = 50


class Guard:
    """The watchdog: a fork that sleeps until this process dismisses it or is gone."""

    def __init__(self, mark: str) -> None:
        reader, self._writer = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            _run_in_fork(lambda: _watch(reader, mark), keep=reader)
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


def _run_in_fork(watch: Callable[[], None], *, keep: int) -> NoReturn:
    """Runs `watch` with a single open descriptor, then exits without clean-up."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.closerange(0, keep)
        os.closerange(keep + 1, os.sysconf("SC_OPEN_MAX"))
        watch()
    finally:
        os._exit(0)


def _watch(reader: int, mark: str) -> None:
    groups: set[int] = set()
    rest = b""
    while data := os.read(reader, 1 << 12):
        whole = (rest + data)[: (len(rest) + len(data)) // _MESSAGE.size * _MESSAGE.size]
        rest = (rest + data)[len(whole) :]
        for (message,) in _MESSAGE.iter_unpack(whole):
            if not message:
                return
            groups = groups | {message} if message > 0 else groups - {-message}
    _end(groups, mark)


def _end(groups: set[int], mark: str) -> None:
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    for _ in range(_ROUNDS):
        remaining = leftovers.marked(mark)
        if not remaining:
            return
        for process in remaining:
            process.send(signal.SIGKILL)
