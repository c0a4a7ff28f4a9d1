"""The numbers in a piece of a log: those of many lines as columns, in a fraction of the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchai_magics.backends.base import Chunk
from batchai_magics.backends.service.log_records import clock_of, parts_of, records_in
from batchai_magics.metrics import Parser
from batchai_magics.metrics.record import Record

if TYPE_CHECKING:
    from batchai_magics.metrics.reading.bulk.columns import Columns

MANY_BYTES = 1 << 14  # of one file in a piece: read faster as columns, and numpy is worth its import


def numbers_in(chunk: Chunk, parser: Parser) -> tuple[Record, ...] | Columns:
    """The records of a piece, each with the rank that wrote its line, and when."""
    if len(chunk.data) < MANY_BYTES:
        return tuple(records_in(chunk, parser))
    from batchai_magics.metrics.reading.bulk.columns import Columns
    from batchai_magics.metrics.reading.bulk.growing import Growing

    growing, clock, parts = Growing(MANY_BYTES), clock_of(chunk), list(parts_of(chunk))
    if all(len(part.data) < MANY_BYTES for part in parts):
        return Columns.of(records_in(chunk, parser))
    for part in parts:
        growing.read(parser.file_of(part.rank), part.data, part.offset, clock)
    return growing.columns()
