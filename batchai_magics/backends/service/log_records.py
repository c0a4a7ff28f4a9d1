"""Pieces of a log become records, each with the rank that wrote its line, and when.

Like all that it imports it is of the standard library alone: nodes of a cluster read logs too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from batchai_magics.metrics.reading.parser import Parser
from batchai_magics.metrics.reading.times import Clock
from batchai_magics.metrics.record import Record


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
    """Gives a piece to a parser, telling it which rank wrote what when; yields what it read."""
    clock = clock_of(piece)
    for part in parts_of(piece):
        yield from parser.feed(part.data, part.rank, offset=part.offset, clock=clock)


class RankPart(NamedTuple):
    """The bytes at an offset that a rank wrote; None where it is not known who did."""

    data: bytes
    offset: int
    rank: int | None


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


def clock_of(piece: _Piece) -> Clock | None:
    """What tells when its bytes were written, if anything does."""
    times = piece.times
    return Clock([written.start for written in times], [written.time for written in times]) if times else None


def _part(piece: _Piece, start: int, end: int, rank: int | None) -> RankPart:
    return RankPart(piece.data[start - piece.offset : end - piece.offset], start, rank)
