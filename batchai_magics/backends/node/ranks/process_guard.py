"""A twin of a process that ends what it started when it disappears, however that happened."""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from batchai_magics.backends.node.ranks import leftover_processes

_NEWS = struct.Struct("<i")  # a process group that was started; negative: it has ended; 0: all is well
_ROUNDS = 50


class Guard:
    """The twin: a fork that sleeps until this process says that all is well, or is gone."""

    def __init__(self, mark: str) -> None:
        reader, self._writer = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            _in_the_twin(lambda: _watch(reader, mark), keep=reader)
        os.close(reader)

    def add(self, group: int) -> None:
        """Has a process group ended with this process."""
        self._tell(group)

    def remove(self, group: int) -> None:
        """The group has ended."""
        self._tell(-group)

    def dismiss(self) -> None:
        """Nothing is left to guard."""
        self._tell(0)
        os.close(self._writer)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _tell(self, news: int) -> None:
        with suppress(BrokenPipeError):  # somebody has killed it: the processes' own parent signal is left
            os.write(self._writer, _NEWS.pack(news))


def _in_the_twin(watch: Callable[[], None], *, keep: int) -> NoReturn:
    """Runs nothing but `watch` with nothing but one descriptor, then ends without any clean-up."""
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
        whole = (rest + data)[: (len(rest) + len(data)) // _NEWS.size * _NEWS.size]
        rest = (rest + data)[len(whole) :]
        for (news,) in _NEWS.iter_unpack(whole):
            if not news:
                return
            groups = groups | {news} if news > 0 else groups - {-news}
    _end(groups, mark)


def _end(groups: set[int], mark: str) -> None:
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    for _ in range(_ROUNDS):
        left = leftover_processes.marked(mark)
        if not left:
            return
        for process in left:
            process.send(signal.SIGKILL)
