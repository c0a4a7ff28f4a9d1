"""Pieces of a log become records, each with the rank that wrote its line, and when.

Like all that it imports it is of the standard library alone: nodes of a cluster read logs too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

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
    clock = Clock([written.start for written in piece.times], [written.time for written in piece.times])
    for start, end, rank in _parts(piece):
        data = piece.data[start - piece.offset : end - piece.offset]
        yield from parser.feed(data, rank, offset=start, clock=clock if piece.times else None)


def _parts(piece: _Piece) -> Iterator[tuple[int, int, int | None]]:
    """Start, end and rank of each part of a piece; the rank of what no span covers is not known."""
    at, end = piece.offset, piece.offset + len(piece.data)
    for span in piece.spans:
        if at < span.start:
            yield at, span.start, None
        yield span.start, span.end, span.rank
        at = span.end
    if at < end:
        yield at, end, None
