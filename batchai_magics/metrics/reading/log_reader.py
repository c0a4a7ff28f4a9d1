"""Reads logs that are complete and logs that grow, by the block: their records as columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from batchai_magics.metrics.measurement_table import MeasurementTable
from batchai_magics.metrics.reading.log_file import LogFile
from batchai_magics.metrics.reading.metric_suggestions import LogStart
from batchai_magics.metrics.reading.user_patterns import UserPatterns

_BLOCK_BYTES = 1 << 20


class Readable(Protocol):
    """A file or pipe."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most so many; empty at the end."""


def read_table(chunks: Iterable[bytes], start: LogStart | None = None) -> MeasurementTable:
    """All records of a log that comes in pieces; memory holds the result and one piece.

    Args:
        chunks: The pieces.
        start: Notes what is read.
    """
    file, table = LogFile(None, UserPatterns({})), MeasurementTable()
    for chunk in chunks:
        for readings in file.read(chunk):
            table.add(readings)
            if start:
                start.note(readings)
    table.add_records(file.finish())
    return table


def read_stream(head: bytes, stream: Readable, start: LogStart) -> MeasurementTable:
    """All records of a log whose first bytes were read; `start` notes what is read."""
    return read_table(_pieces(head, stream), start)


def _pieces(head: bytes, stream: Readable) -> Iterable[bytes]:
    yield head
    while piece := stream.read(_BLOCK_BYTES):
        yield piece
