"""The records of ranks about their output: which rank wrote which bytes when, and which are secrets."""

from __future__ import annotations

import errno
import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from batchai_magics.backends.node.ranks.output_streams import SECRET, SPAN, TIME
from batchai_magics.log_lines import RedactedSpan, Span, WriteTime
from batchai_magics.untrusted_files import NotRegularError, open_file

_LAST_S = 1e11  # the latest time that is read, in the year 5138


def writers(file: Path, start: int, end: int) -> list[Span]:
    """Which ranks wrote the bytes from `start` to `end`; adjacent spans of one rank are merged."""
    if start >= end:
        return []
    joined: list[Span] = []
    with _Records.of(file, SPAN) as records:
        if records is None:  # with a single process there is nothing to record
            return [Span(start, end, 0)]
        first = bisect_right(records, start, key=lambda record: record[1])
        last = bisect_left(records, end, key=lambda record: record[0])
        for record in map(Span._make, records.between(first, min(last, first + end - start))):
            begin = record.start
            if joined and joined[-1].rank == record.rank and joined[-1].end == begin:
                begin = joined.pop().start
            joined.append(Span(max(begin, start), min(record.end, end), record.rank))
    return joined


def recorded_end(file: Path, start: int, end: int) -> int:
    """The offset up to which the writers of the bytes from `start` to `end` are recorded.

    A rank appends its data before its span, so the last bytes of a growing log may not have a span yet.
    """
    with _Records.of(file, SPAN) as records:
        if records is None:
            return end
        last = records[len(records) - 1][1] if records else start
    return max(start, min(last, end))


def times(file: Path, start: int, end: int) -> list[WriteTime]:
    """When the bytes from `start` to `end` were written; empty if that was not recorded."""
    if start >= end:
        return []
    with _Records.of(file, TIME) as records:
        if records is None:
            return []
        first = max(0, bisect_right(records, start, key=lambda record: record[0]) - 1)
        last = min(bisect_left(records, end, key=lambda record: record[0]), first + 1 + end - start)
        write_times = map(WriteTime._make, records.between(first, last))
        return [record for record in write_times if 0 <= record.time < _LAST_S]


def secrets(file: Path, start: int, end: int) -> list[RedactedSpan]:
    """Which of the bytes from `start` to `end` are secrets."""
    if start >= end or not file.exists():
        return []
    with _Records.of(file, SECRET) as records:
        if records is None:
            raise OSError(errno.EIO, "the index of its secrets is not a regular file", str(file))
        first = bisect_right(records, start, key=lambda record: record[1])
        last = min(bisect_left(records, end, key=lambda record: record[0]), first + end - start)
        spans = map(RedactedSpan._make, records.between(first, last))
        return [RedactedSpan(max(span.start, start), min(span.end, end)) for span in spans]


@dataclass(frozen=True)
class _Records(Sequence[tuple[Any, ...]]):
    """A file of fixed-size records, read only as far as needed."""

    stream: IO[bytes]
    shape: struct.Struct
    length: int

    @classmethod
    @contextmanager
    def of(cls, file: Path, shape: struct.Struct) -> Iterator[_Records | None]:
        """The complete records in the file at this time; None if there is no such file."""
        try:
            stream = open_file(file)
        except (FileNotFoundError, NotRegularError):
            yield None
            return
        with stream:
            yield cls(stream, shape, stream.seek(0, os.SEEK_END) // shape.size)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        return next(self.between(index, index + 1))

    def between(self, first: int, last: int) -> Iterator[tuple[Any, ...]]:
        """The records from `first` up to, but not including, `last`."""
        size = self.shape.size
        self.stream.seek(first * size)
        return self.shape.iter_unpack(self.stream.read(max(0, last - first) * size))
