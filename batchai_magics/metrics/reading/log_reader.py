"""Reads logs that are complete and logs that grow, by the block: their records as columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from batchai_magics.metrics.columns.record_columns import Columns, ColumnsBuilder
from batchai_magics.metrics.reading.log_file import LogFile
from batchai_magics.metrics.reading.timestamps import WriteClock
from batchai_magics.metrics.reading.user_patterns import UserPatterns

_BLOCK_BYTES = 1 << 20


class Readable(Protocol):
    """A file or pipe."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most so many; empty at the end."""


def read_columns(chunks: Iterable[bytes]) -> Columns:
    """All records of a log that comes in pieces; memory holds the result and one piece."""
    file, columns = LogFile(None, UserPatterns({})), ColumnsBuilder()
    for chunk in chunks:
        for readings in file.read(chunk):
            columns.add(readings)
    columns.add_records(file.finish())
    return columns.columns()


def read_stream(head: bytes, stream: Readable) -> Columns:
    """All records of a log whose first bytes were read."""
    return read_columns(_pieces(head, stream))


def _pieces(head: bytes, stream: Readable) -> Iterable[bytes]:
    yield head
    while piece := stream.read(_BLOCK_BYTES):
        yield piece


class GrowingLog:
    """Reads parts of files, one behind the other, and keeps their records as columns."""

    def __init__(self) -> None:
        self._columns = ColumnsBuilder()

    def read(self, file: LogFile, data: bytes, offset: int, clock: WriteClock | None = None) -> None:
        """Read the next bytes of a file, at an offset of it; `clock` tells when they were written."""
        for readings in file.read(data, offset=offset, clock=clock):
            self._columns.add(readings)

    def columns(self) -> Columns:
        """The records of all parts."""
        return self._columns.columns()
