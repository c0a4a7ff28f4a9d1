"""The clock of the file system that hosts share: the one clock by which ages are judged.

The clocks of a laptop, a login node and a node may be minutes apart. A file is as old as the file server
says: its own time, against that of a file that is touched now.
"""

from __future__ import annotations

import time
from pathlib import Path

from batchai_magics.backends.service import private_files

READ_AGAIN_S = 30.0  # meanwhile the time that has passed here is added
_TICK_S = 0.02  # times of files are rounded down by less, as a rule


class FileClock:
    """The clock of the file system that `file` is on, which is made where there is none.

    Where that cannot be written it is the clock of this host.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._ahead_s: float | None = None  # of this host's monotonic clock
        self._read_s = 0.0

    def read(self) -> float:
        """Its time, rounded down, asked of the file system; in seconds since 1970."""
        try:
            with private_files.at_once(self._file):
                self._file.touch(mode=private_files.FILE)
                told = self._file.stat().st_mtime
        except OSError:
            return self._counted_on()
        self._read_s = time.monotonic()
        ahead_s = told - self._read_s
        is_rounded = self._ahead_s is not None and 0 < self._ahead_s - ahead_s < _TICK_S
        self._ahead_s = self._ahead_s if is_rounded else ahead_s
        return told

    def now(self) -> float:
        """Its time as far as it is known here; the file system is asked every half a minute."""
        if self._ahead_s is None or time.monotonic() - self._read_s > READ_AGAIN_S:
            self.read()
        return self._counted_on()

    def age_s(self, moment: float) -> float:
        """How long ago it was so late. What seems to be to come has happened since it was read."""
        age_s = self.now() - moment
        return age_s if age_s >= 0 else self.read() - moment

    def _counted_on(self) -> float:
        """Its time by what has passed here since it was read; this host's where it never could be."""
        return time.time() if self._ahead_s is None else time.monotonic() + self._ahead_s
