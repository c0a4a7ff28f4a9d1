"""Reads logs that are complete and logs that grow, by the block: their records as columns.

Lines of forms that were learned are read all at once, others by the parser, in their turn: so the result is
the parser's, record by record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from batchai_magics.metrics.columns.record_columns import Columns
from batchai_magics.metrics.columns.step_columns import MARGIN_BYTES
from batchai_magics.metrics.measurement import Record
from batchai_magics.metrics.reading.block_reader import BlockReader
from batchai_magics.metrics.reading.line_cleaning import has_controls
from batchai_magics.metrics.reading.log_file import LogFile
from batchai_magics.metrics.reading.timestamps import WriteTimes

_BLOCK_BYTES = 2 << 20


def read_columns(chunks: Iterable[bytes], *, block_bytes: int = _BLOCK_BYTES) -> Columns:
    """All records of a log that comes in pieces; memory holds the result and one block."""
    reader = _Buffer(block_bytes)
    for chunk in chunks:
        reader.add(chunk)
    return reader.finish()


def read_stream(head: bytes, stream: Readable) -> Columns:
    """All records of a log whose first bytes were read; the rest goes from the stream into the buffer."""
    reader = _Buffer(_BLOCK_BYTES)
    reader.add(head)
    while reader.fill_from(stream):
        pass
    return reader.finish()


class Readable(Protocol):
    """A file or pipe."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill a buffer, or its first part; how many bytes that are, nothing at the end."""


class _Buffer:
    """Collects a log's bytes in one buffer and reads the whole lines in it each time that it is full."""

    def __init__(self, block_bytes: int) -> None:
        self._buffer = bytearray(b"\n" * (block_bytes + 2 * MARGIN_BYTES))
        self._limit = MARGIN_BYTES + block_bytes
        self._filled = MARGIN_BYTES
        self._lines = BlockReader()

    def add(self, chunk: bytes) -> None:
        rest = memoryview(chunk)
        while rest:
            size = min(len(rest), self._limit - self._filled)
            self._buffer[self._filled : self._filled + size] = rest[:size]
            self._take(size)
            rest = rest[size:]

    def fill_from(self, stream: Readable) -> bool:
        size = stream.readinto(memoryview(self._buffer)[self._filled : self._limit])
        self._take(size or 0)
        return bool(size)

    def _take(self, size: int) -> None:
        self._filled += size
        if self._filled == self._limit:
            self._read()

    def finish(self) -> Columns:
        self._read()
        return self._lines.finish(self._buffer, self._filled)

    def _read(self) -> None:
        """Read the whole lines, or a part of an endless one; the rest goes to the buffer's front."""
        stretches = self._lines.end_lines(self._buffer, self._filled)
        end = self._buffer.rfind(b"\n", MARGIN_BYTES, self._filled) + 1
        if not end and self._filled == self._limit:
            end = self._filled
        if end:
            self._lines.read(self._buffer, end, stretches)
            rest = self._buffer[end : self._filled]
            self._filled = MARGIN_BYTES + len(rest)
            self._buffer[MARGIN_BYTES : self._filled] = rest


class GrowingLog:
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
        self._flush_loose()
        self._done.append(BlockReader(file, offset=offset, clock=clock).read_some(data))

    def columns(self) -> Columns:
        """The records of all parts."""
        self._flush_loose()
        return Columns.concatenated(self._done)

    def _flush_loose(self) -> None:
        if self._loose:
            self._done.append(Columns.of(self._loose))
            self._loose = []
