"""Read metrics and progress from log chunks, with the rank and time of their bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchai_magics.backends.base import Chunk
from batchai_magics.backends.service.log_records import clock_of, parts_of, records_in
from batchai_magics.metrics import Parser
from batchai_magics.metrics.progress.progress_reader import BAR_BYTES, MAX_LINES, ProgressReader
from batchai_magics.metrics.record import Record

if TYPE_CHECKING:
    from batchai_magics.metrics.reading.bulk.columns import Columns


MIN_COLUMN_BYTES = 1 << 14  # of one file per chunk: from here, columns are faster and worth importing numpy


def parse_metrics(chunk: Chunk, parser: Parser) -> tuple[Record, ...] | Columns:
    """The records of a chunk, with the rank and time of each line."""
    if len(chunk.data) < MIN_COLUMN_BYTES:
        return tuple(records_in(chunk, parser))
    from batchai_magics.metrics.reading.bulk.columns import Columns
    from batchai_magics.metrics.reading.bulk.growing import Growing

    growing, clock, parts = Growing(MIN_COLUMN_BYTES), clock_of(chunk), list(parts_of(chunk))
    if all(len(part.data) < MIN_COLUMN_BYTES for part in parts):
        return Columns.of(records_in(chunk, parser))
    for part in parts:
        growing.read(parser.file_of(part.rank), part.data, part.offset, clock)
    return growing.columns()


def read_progress(reader: ProgressReader, file: str, chunk: Chunk, *, now: float) -> bool:
    """Parse the newest bytes of a log; return whether they contained progress. `now` is the default time."""
    at = chunk.times[-1].time if chunk.times else now
    if len(chunk.spans) <= 1:
        return reader.feed(chunk.data, at=at, stream=file, rank=chunk.spans[0].rank if chunk.spans else None)
    return _read_ranks(reader, file, chunk, at)


def _read_ranks(reader: ProgressReader, file: str, chunk: Chunk, at: float) -> bool:
    """Parse the last output of each relevant rank, in the order of writing."""
    newest: list[tuple[int, bytes]] = []
    size = 0
    for span in reversed(chunk.spans):
        if not reader.wants(span.rank):
            continue
        data = chunk.data[max(0, span.start - chunk.offset) : span.end - chunk.offset]
        newest.append((span.rank, data))
        size += len(data)
        if size >= BAR_BYTES or len(newest) >= MAX_LINES:
            break
    told = [reader.feed(data, at=at, stream=f"{file}#{rank}", rank=rank) for rank, data in reversed(newest)]
    return any(told)
