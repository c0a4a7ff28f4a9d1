"""Pieces of a log become records, each with the rank that wrote its line, and when.

Like all that it imports it is of the standard library alone: nodes of a cluster read logs too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import NamedTuple, Protocol

from batchai_magics.metrics.reading.log_parser import Parser
from batchai_magics.metrics.reading.timestamps import WriteTimes
from batchai_magics.metrics.record import Record, at_offset


class _Part(Protocol):
    """The bytes from `start` to `end` are a rank's."""

    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def rank(self) -> int: ...


class _Moment(Protocol):
    """The bytes from `start` on were written then, in seconds since 1970."""

    @property
    def start(self) -> int: ...
    @property
    def time(self) -> float: ...


class _Piece(Protocol):
    """Some bytes of a log from `offset` on, who wrote which of them, and when."""

    @property
    def data(self) -> bytes: ...
    @property
    def offset(self) -> int: ...
    @property
    def spans(self) -> Sequence[_Part]: ...
    @property
    def times(self) -> Sequence[_Moment]: ...


def records_in(piece: _Piece, parser: Parser) -> Iterator[Record]:
    """Gives a piece to a parser, telling it which rank wrote what when; yields what it read.

    What each rank wrote is read at once: that takes much less than each line of many that alternate.
    """
    clock, parts = clock_of(piece), dict[int | None, list[RankPart]]()
    for part in parts_of(piece):
        parts.setdefault(part.rank, []).append(part)
    records = (_records_of(rank, parser, gathered, clock) for rank, gathered in parts.items())
    yield from sorted(chain.from_iterable(records), key=attrgetter("offset"))


def _records_of(
    rank: int | None, parser: Parser, parts: Sequence[RankPart], clock: WriteTimes | None
) -> Sequence[Record]:
    """What one rank wrote, read as if its parts followed each other in the file."""
    first, *others = parts
    if not others:
        return parser.feed(first.data, rank, offset=first.offset, clock=clock)
    data = b"".join(part.data for part in parts)
    ends = [*accumulate((len(part.data) for part in parts), initial=first.offset)][1:]
    moved = _Moved(ends, [part.end for part in parts])
    records = parser.feed(data, rank, offset=first.offset, clock=clock and _MovedClock(clock, moved))
    parser.feed(b"", rank, offset=parts[-1].end, clock=clock)  # the next bytes stand in the file itself
    return [at_offset(record, moved.offset(record.offset)) for record in records]


class _Moved(NamedTuple):
    """Parts of a file that are read as if one followed the other: where they then end, and where they do."""

    ends: Sequence[int]
    file_ends: Sequence[int]

    def offset(self, end: int) -> int:
        """Where in the file a line ends, of where it does as it is read."""
        part = bisect_left(self.ends, end)
        return end - self.ends[part] + self.file_ends[part]


class _MovedClock(NamedTuple):
    """A clock that is asked for offsets of what is read."""

    clock: WriteTimes
    moved: _Moved

    def at(self, end: int) -> float | None:
        """When the line was written that ends here."""
        return self.clock.at(self.moved.offset(end))


class RankPart(NamedTuple):
    """The bytes at an offset that a rank wrote; None where it is not known who did."""

    data: bytes
    offset: int
    rank: int | None

    @property
    def end(self) -> int:
        """The offset behind them."""
        return self.offset + len(self.data)


def parts_of(piece: _Piece) -> Iterator[RankPart]:
    """The parts of a piece, in their order."""
    at, end = piece.offset, piece.offset + len(piece.data)
    for span in piece.spans:
        if at < span.start:
            yield _part(piece, at, span.start, None)
        yield _part(piece, span.start, span.end, span.rank)
        at = span.end
    if at < end:
        yield _part(piece, at, end, None)


def clock_of(piece: _Piece) -> WriteTimes | None:
    """What tells when its bytes were written, if anything does."""
    times = piece.times
    return (
        WriteTimes([written.start for written in times], [written.time for written in times])
        if times
        else None
    )


def _part(piece: _Piece, start: int, end: int, rank: int | None) -> RankPart:
    return RankPart(piece.data[start - piece.offset : end - piece.offset], start, rank)
