"""What ranks recorded of their output: which rank wrote which bytes of a file, when, and what is secret."""

from __future__ import annotations

import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from batchai_magics.backends.node.ranks.output_streams import SPAN, STAMP
from batchai_magics.backends.node.ranks.printed_secrets import PLACE


class WrittenBy(NamedTuple):
    """The bytes from `start` to `end` are a rank's."""

    start: int
    end: int
    rank: int


class WrittenAt(NamedTuple):
    """The bytes from `start` on were written then, in seconds since 1970."""

    start: int
    time: float


class SecretAt(NamedTuple):
    """The bytes from `start` to `end` are the value of a secret."""

    start: int
    end: int


def writers(file: Path, start: int, end: int) -> list[WrittenBy]:
    """Which rank wrote the bytes from `start` to `end`, neighbours of one rank joined."""
    if start >= end:
        return []
    if not file.exists():  # a lone process needs no record of who wrote what
        return [WrittenBy(start, end, 0)]
    joined: list[WrittenBy] = []
    with _Records.of(file, SPAN) as records:
        first = bisect_right(records, start, key=lambda record: record[1])
        last = bisect_left(records, end, key=lambda record: record[0])
        for record in map(WrittenBy._make, records.between(first, last)):
            begin = record.start
            if joined and joined[-1].rank == record.rank and joined[-1].end == begin:
                begin = joined.pop().start
            joined.append(WrittenBy(max(begin, start), min(record.end, end), record.rank))
    return joined


def known(file: Path, start: int, end: int) -> int:
    """Up to where it is recorded who wrote the bytes from `start` to `end`.

    A writer appends what it has to say first, and then whose it is: bytes at the end of a log that grows may
    wait for that.
    """
    if not file.exists():
        return end
    with _Records.of(file, SPAN) as records:
        last = records[len(records) - 1][1] if records else start
    return max(start, min(last, end))


def times(file: Path, start: int, end: int) -> list[WrittenAt]:
    """When the bytes from `start` to `end` were written; empty where that was not noted."""
    if start >= end or not file.exists():
        return []
    with _Records.of(file, STAMP) as records:
        first = bisect_right(records, start, key=lambda record: record[0])
        last = bisect_left(records, end, key=lambda record: record[0])
        return [WrittenAt._make(record) for record in records.between(max(0, first - 1), last)]


def secrets(file: Path, start: int, end: int) -> list[SecretAt]:
    """Which of the bytes from `start` to `end` are a secret's."""
    if start >= end or not file.exists():
        return []
    with _Records.of(file, PLACE) as records:
        first = bisect_right(records, start, key=lambda record: record[1])
        last = bisect_left(records, end, key=lambda record: record[0])
        found = map(SecretAt._make, records.between(first, last))
        return [SecretAt(max(place.start, start), min(place.end, end)) for place in found]


@dataclass(frozen=True)
class _Records(Sequence[tuple[Any, ...]]):
    """A file of records of one size, of which only those asked for are read."""

    stream: IO[bytes]
    shape: struct.Struct
    length: int

    @classmethod
    @contextmanager
    def of(cls, file: Path, shape: struct.Struct) -> Iterator[_Records]:
        """The whole records in the file as it is now."""
        with file.open("rb", buffering=0) as stream:
            yield cls(stream, shape, stream.seek(0, os.SEEK_END) // shape.size)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        return next(self.between(index, index + 1))

    def between(self, first: int, last: int) -> Iterator[tuple[Any, ...]]:
        """The records from `first` up to `last`, which is none of them."""
        size = self.shape.size
        self.stream.seek(first * size)
        return self.shape.iter_unpack(self.stream.read(max(0, last - first) * size))
