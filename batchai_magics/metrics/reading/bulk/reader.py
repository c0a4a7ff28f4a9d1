"""Whole logs at the speed of a search: what the parser reads from them, in columns.

Most lines of a log are either step lines of one exact shape, which are read all at once, or hold none of the
byte strings that a record or a tag has. Any other line goes through the parser, in its turn: so the result is
the parser's, record by record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from batchai_magics.metrics.reading.bulk.columns import Columns
from batchai_magics.metrics.reading.bulk.lines import BulkLines
from batchai_magics.metrics.reading.bulk.steps import MARGIN_BYTES

_BLOCK_BYTES = 2 << 20
_RETURN, _NEWLINE = b"\r\n"


def read_columns(chunks: Iterable[bytes], *, block_bytes: int = _BLOCK_BYTES) -> Columns:
    """All records of a log that comes in pieces; memory holds the result and one block."""
    reader = _Reader(block_bytes)
    for chunk in chunks:
        reader.add(chunk)
    return reader.finish()


def read_stream(head: bytes, stream: Readable) -> Columns:
    """All records of a log whose first bytes were read; the rest goes from the stream into the buffer."""
    reader = _Reader(_BLOCK_BYTES)
    reader.add(head)
    while reader.fill_from(stream):
        pass
    return reader.finish()


class Readable(Protocol):
    """A file or pipe."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill a buffer, or its first part; how many bytes that are, nothing at the end."""


class _Reader:
    """Collects a log's bytes in one buffer and reads the whole lines in it each time that it is full."""

    def __init__(self, block_bytes: int) -> None:
        self._buffer = bytearray(b"\n" * (block_bytes + 2 * MARGIN_BYTES))
        self._limit = MARGIN_BYTES + block_bytes
        self._filled = MARGIN_BYTES
        self._lines = BulkLines()

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
        _end_lines_at_returns(self._buffer, self._filled)
        end = self._buffer.rfind(b"\n", MARGIN_BYTES, self._filled) + 1
        if not end and self._filled == self._limit:
            end = self._filled
        if end:
            self._lines.read(self._buffer, end)
            rest = self._buffer[end : self._filled]
            self._filled = MARGIN_BYTES + len(rest)
            self._buffer[MARGIN_BYTES : self._filled] = rest


def _end_lines_at_returns(buffer: bytearray, end: int) -> None:
    if buffer.find(b"\r", MARGIN_BYTES, end) >= 0:
        text = np.frombuffer(buffer, np.uint8)[MARGIN_BYTES:end]
        text[text == _RETURN] = _NEWLINE
