"""The clock of the shared file system, the only one used to compute ages.

The clocks of a laptop, a login node and a node may differ by minutes. The age of a file is the difference
between its mtime and the mtime of a file touched now.
"""

from __future__ import annotations

import time
from pathlib import Path

from batchai_magics.backends.service import private_files

READ_INTERVAL_S = 30.0  # between reads, the time elapsed here is added
_TICK_S = 0.02  # file times are usually rounded down by less than this


class FileClock:
    """The clock of the file system that contains `file`, which is created if necessary.

    If it cannot be written, the clock is this host's.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset_s: float | None = None  # offset to this host's monotonic clock
        self._read_s = 0.0

    def read(self) -> float:
        """Reads the file system's time, rounded down, in seconds since 1970."""
        try:
            with private_files.pipelined(self._file):
                self._file.touch(mode=private_files.FILE)
                time_s = self._file.stat().st_mtime
        except OSError:
            return self._extrapolated()
        self._read_s = time.monotonic()
        offset_s = time_s - self._read_s
        is_rounded = self._offset_s is not None and 0 < self._offset_s - offset_s < _TICK_S
        self._offset_s = self._offset_s if is_rounded else offset_s
        return time_s

    def now(self) -> float:
        """The current time; the file system is only read every half minute."""
        if self._offset_s is None or time.monotonic() - self._read_s > READ_INTERVAL_S:
            self.read()
        return self._extrapolated()

    def age_s(self, moment: float) -> float:
        """The age of a time. If it seems to be in the future, the clock is read again."""
        age_s = self.now() - moment
        return age_s if age_s >= 0 else self.read() - moment

    def _extrapolated(self) -> float:
        """The time extrapolated from the last read; this host's time if there was none."""
        return time.time() if self._offset_s is None else time.monotonic() + self._offset_s
