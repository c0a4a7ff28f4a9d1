"""A cursor over one line while records are parsed from it, left to right."""

from __future__ import annotations

from dataclasses import dataclass

from batchai_magics.metrics.reading.parser_state import StepCadence
from batchai_magics.metrics.reading.prefix_patterns import LABEL, PREFIX, rank_of
from batchai_magics.metrics.reading.timestamps import (
    MIN_TIMESTAMP_BYTES,
    Timestamp,
    WriteClock,
    parse_timestamp,
    wall_time,
)


@dataclass(slots=True)
class BlockCursor:
    """A line with its newline, unless that is missing; `line_end` is the offset of its end in the file."""

    data: bytes
    rank: int | None  # None: taken from labels
    line_end: int
    cadence: StepCadence
    consumed: int = 0  # end of the last record
    record_start: int = 0  # start of the last record …
    first_record_start: int | None = None  # … and of the first
    clock: WriteClock | None = None  # for a line without a more precise timestamp
    tag_timestamp: Timestamp | None = None  # of the line's tag

    def text_before(self, position: int) -> bytes:
        """The text before a position, back to the last record."""
        return self.data[self.consumed : position]

    def rank_at(self, before: bytes) -> int | None:
        """The stream's rank, else that of a label at the end of `before`."""
        if self.rank is None and before:
            return rank_of(LABEL.search(before))
        return self.rank

    def wall_time(self, position: int) -> float | None:
        """When the line with a record at this position was printed."""
        prefix = PREFIX.match(self.data) if position > MIN_TIMESTAMP_BYTES else None
        is_long = prefix is not None and prefix.end() > MIN_TIMESTAMP_BYTES
        timestamp = parse_timestamp(prefix[0]) if prefix and is_long else None
        timestamp = timestamp or self.tag_timestamp
        if timestamp is None and self.clock is None:
            return None
        return wall_time(timestamp, self.clock.at(self.line_end) if self.clock else None)
