"""Signals as readable events on a file descriptor (the self-pipe trick)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable


class SignalPipe:
    """Becomes readable when one of these signals arrives; the signals have no other effect."""

    def __init__(self, numbers: Iterable[int] = (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1)) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, lambda *_: None)

    def fileno(self) -> int:
        """The descriptor to select on."""
        return self._reader

    def read(self) -> set[int]:
        """The signals that arrived since the last call."""
        try:
            return set(os.read(self._reader, 1 << 16))
        except BlockingIOError:
            return set()
