"""Reads a whole log by the block: its records as columns."""

from __future__ import annotations

from collections.abc import Iterable

from batchai_magics.metrics.measurement_table import MeasurementTable
from batchai_magics.metrics.reading.log_file import LogFile
from batchai_magics.metrics.reading.metric_suggestions import LogStart
from batchai_magics.metrics.reading.user_patterns import UserPatterns


def read_table(
    chunks: Iterable[bytes], patterns: UserPatterns | None = None, start: LogStart | None = None
) -> MeasurementTable:
    """All records of a log that comes in pieces; memory holds the result and one piece.

    Args:
        chunks: The pieces.
        patterns: Additional metrics.
        start: Notes what is read.
    """
    file, table = LogFile(None, patterns or UserPatterns({})), MeasurementTable()
    for chunk in chunks:
        if start:
            start.add(chunk)
        for block in file.read(chunk):
            table.extend(block)
            if start:
                start.note(block)
    table.add_records(file.finish())
    return table
