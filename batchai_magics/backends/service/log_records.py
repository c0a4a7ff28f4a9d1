"""Pieces of a log become records, each with the rank that wrote its line, and when."""

from __future__ import annotations

from collections.abc import Iterator

from batchai_magics.backends.base import Chunk
from batchai_magics.metrics import Parser, Record
from batchai_magics.metrics.reading.times import Clock


def records_in(chunk: Chunk, parser: Parser) -> Iterator[Record]:
    """Gives a chunk to a parser, telling it which rank wrote what when; yields what it read."""
    clock = Clock([written.start for written in chunk.times], [written.time for written in chunk.times])
    for start, end, rank in _parts(chunk):
        data = chunk.data[start - chunk.offset : end - chunk.offset]
        yield from parser.feed(data, rank, offset=start, clock=clock if chunk.times else None)


def _parts(chunk: Chunk) -> Iterator[tuple[int, int, int | None]]:
    """Start, end and rank of each part of a chunk; the rank of what no span covers is not known."""
    at = chunk.offset
    for span in chunk.spans:
        if at < span.start:
            yield at, span.start, None
        yield span.start, span.end, span.rank
        at = span.end
    if at < chunk.end:
        yield at, chunk.end, None
