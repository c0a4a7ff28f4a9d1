"""The parts of growing files: of those with many lines the records are columns at once."""

from __future__ import annotations

from batchai_magics.metrics.reading.bulk.columns import Columns
from batchai_magics.metrics.reading.bulk.lines import BulkLines
from batchai_magics.metrics.reading.line_cleaning import has_controls
from batchai_magics.metrics.reading.log_file import LogFile
from batchai_magics.metrics.reading.timestamps import WriteTimes
from batchai_magics.metrics.record import Record


class Growing:
    """Reads parts of files, one behind the other, and keeps their records; large ones as columns."""

    def __init__(self, many_bytes: int) -> None:
        self._many_bytes = many_bytes
        self._done: list[Columns] = []
        self._loose: list[Record] = []  # behind those that are done

    def read(self, file: LogFile, data: bytes, offset: int, clock: WriteTimes | None = None) -> None:
        """Read the next bytes of a file, at an offset of it; `clock` tells when they were written."""
        if len(data) < self._many_bytes or (clock and has_controls(data)):
            self._loose.extend(file.feed(data, offset=offset, clock=clock))
            return
        self._settle()
        self._done.append(BulkLines(file, offset=offset, clock=clock).read_some(data))

    def columns(self) -> Columns:
        """The records of all parts."""
        self._settle()
        return Columns.concatenated(self._done)

    def _settle(self) -> None:
        if self._loose:
            self._done.append(Columns.of(self._loose))
            self._loose = []
