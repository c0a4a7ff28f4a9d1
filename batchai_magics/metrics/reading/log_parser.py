"""Parses logs, whole or as they grow: bytes in, records out, independent of chunking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from batchai_magics.metrics.measurement import Record
from batchai_magics.metrics.reading.bar_steps import BarCount, UnplacedDict
from batchai_magics.metrics.reading.user_patterns import PatternMismatch, UserPatterns
from batchai_magics.metrics.timestamps import WriteClock

if TYPE_CHECKING:
    from batchai_magics.metrics.measurement_table import MeasurementTable
    from batchai_magics.metrics.reading.log_file import LogFile
    from batchai_magics.metrics.reading.metric_suggestions import LogStart


class Parser:
    r"""Parses training logs incrementally; memory is bounded by 64 KiB per stream.

    1. The records do not depend on the chunking of the bytes; they come in the order of their line ends.
    2. Bytes fed with different `rank` are different files, each with its own partial line and offsets.
    3. A line is parsed once it is complete; `finish` parses unterminated lines that are certainly complete.
    4. Invalid input never raises: what cannot be parsed is skipped.

    Args:
        patterns: Regular expressions by metric name, matched against the bytes of a line. Group `value`, or
            the first one, is the value of a Measurement; group `step`, if present, its step.

    Raises:
        UsageError: A pattern is invalid or has no group.
    """

    def __init__(self, patterns: Mapping[str, str] = {}) -> None:
        self._patterns = UserPatterns(patterns)
        self._files: dict[int | None, LogFile] = {}
        self._ended_files: list[LogFile] = []  # of the attempt before

    def feed(
        self,
        data: bytes,
        rank: int | None = None,
        *,
        offset: int | None = None,
        clock: WriteClock | None = None,
    ) -> list[Record]:
        """Parse more bytes of a file.

        Args:
            data: The next bytes, split anywhere.
            rank: The process that wrote them, if known. Each rank is a file of its own.
            offset: The position of the bytes in their file; by default they follow the previous ones.
            clock: When the bytes were written, for lines without a more precise timestamp.

        Returns:
            The records that these bytes complete, in file order.
        """
        return [*chain.from_iterable(self.file_of(rank).read(data, offset=offset, clock=clock))]

    def file_of(self, rank: int | None) -> LogFile:
        """The state of a process's file, so that another reader can continue from it."""
        from batchai_magics.metrics.reading.log_file import LogFile  # loads all formats

        file = self._files.get(rank)
        if file is None:
            file = self._files[rank] = LogFile(rank, self._patterns)
        return file

    @property
    def mismatches(self) -> Sequence[PatternMismatch]:
        """The first match of each pattern that was not a number, in the order of the log."""
        return tuple(self._patterns.mismatches.values())

    def take_bar_counts(self) -> list[BarCount]:
        """Return what progress bars have shown since the last call, for dicts that another stream prints."""
        return [count for file in self._all_files for count in file.take_bar_counts()]

    def take_unplaced(self) -> list[UnplacedDict]:
        """Return the dicts without a step or a bar that were printed since the last call."""
        return [unplaced for file in self._all_files for unplaced in file.take_unplaced()]

    @property
    def _all_files(self) -> list[LogFile]:
        return [*self._ended_files, *self._files.values()]

    def end_processes(self) -> list[Record]:
        """The processes of an attempt have ended: the records on their unterminated lines."""
        files = [self._files.pop(rank) for rank in sorted(rank for rank in self._files if rank is not None)]
        records = [record for file in files for record in file.finish()]
        self._ended_files = files
        return records

    def finish(self) -> list[Record]:
        """The complete records on unterminated lines; afterwards the parser is ready for new files."""
        files = list(self._files.values())
        self._files.clear()
        self._ended_files.clear()
        return [record for file in files for record in file.finish()]


def read_table(
    chunks: Iterable[bytes], patterns: UserPatterns | None = None, start: LogStart | None = None
) -> MeasurementTable:
    """Read all records of a log; memory holds the result and one chunk.

    Args:
        chunks: The bytes of the log, split anywhere.
        patterns: Additional metrics.
        start: Is given the bytes, and what is read of them.
    """
    from batchai_magics.metrics.measurement_table import MeasurementTable
    from batchai_magics.metrics.reading.log_file import LogFile  # loads all formats

    file, table = LogFile(None, patterns or UserPatterns({})), MeasurementTable()
    for chunk in chunks:
        if start:
            start.add(chunk)
        for block in file.read(chunk):
            part = MeasurementTable.of(block)
            table.extend(part)
            if start:
                start.note(part)
    table.add_records(file.finish())
    return table
