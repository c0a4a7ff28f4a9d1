"""A cursor over complete lines of one stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from batchai_magics.metrics.reading.line_prefixes import parse_prefix_cached, text_through_tag
from batchai_magics.metrics.reading.parser_state import RankStates, StepCadence
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
    """Complete lines of one stream while records are parsed from them, left to right."""

    data: bytes
    stream_rank: int | None  # None: taken from labels
    offset: int  # of the first byte of `data` …
    line_end: int | None  # … or the offset of the line's end, if `data` is one cleaned line
    cadence: StepCadence
    states: RankStates = field(default_factory=RankStates)
    consumed: int = 0  # end of the last record
    record_start: int = 0  # start of the last record …
    first_record_start: int | None = None  # … and of the first
    is_tagged: bool = False  # each line starts with a tag, which may hold its rank
    is_continued: bool = False  # the first line continues one that was too long
    raw_ends: Mapping[int, int] | None = None  # of the lines, if they were cleaned
    clock: WriteClock | None = None  # for lines without a more precise timestamp
    tag_timestamp: Timestamp | None = None  # of the line's tag
    rank: int | None = field(init=False)  # of the line
    _cached_timestamp: tuple[int, Timestamp | None] = (-1, None)  # (line start, timestamp) of the last lookup

    def __post_init__(self) -> None:
        self.rank = self.stream_rank

    def end_offset(self, position: int) -> int:
        """The byte offset of the end of the line at a position."""
        newline = self.data.find(b"\n", position)
        return self.offset_of(newline + 1 if newline >= 0 else len(self.data))

    def offset_of(self, end: int) -> int:
        """The byte offset of a line end within `data`."""
        if self.line_end is not None:
            return self.line_end
        offset = self.offset + end
        return offset if self.raw_ends is None else self.raw_ends[offset]

    def text_before(self, position: int) -> bytes:
        """The text before a position on its line, back to the last record; sets `rank` for the line."""
        start = self.data.rfind(b"\n", self.consumed, position) + 1
        if self.is_tagged and (start or not self.consumed):
            start = self.skip_tag(start)
        elif self.is_tagged:  # the previous record's parser may have skipped the tag
            self.skip_tag(self.data.rfind(b"\n", 0, self.consumed) + 1)
        return self.data[start or self.consumed : position]

    def skip_tag(self, start: int) -> int:
        """Read rank and time from the line's tag; return where the text after it starts."""
        text = text_through_tag(self.data, start)
        prefix = parse_prefix_cached(text)
        if prefix is None:
            return start
        self.rank, self.tag_timestamp = prefix.rank(self.stream_rank), prefix.timestamp
        return start + len(text)

    def rank_at(self, before: bytes) -> int | None:
        """The stream's rank, else that of a label at the end of `before`."""
        if self.rank is None and before:
            return rank_of(LABEL.search(before))
        return self.rank

    def wall_time(self, position: int) -> float | None:
        """When the line with the record at this position was printed."""
        start = self.data.rfind(b"\n", 0, position) + 1
        if position - start <= MIN_TIMESTAMP_BYTES:
            timestamp = self.tag_timestamp
        else:
            if start != self._cached_timestamp[0]:
                self._cached_timestamp = start, self._timestamp_at(start)
            timestamp = self._cached_timestamp[1] or self.tag_timestamp
        if timestamp is None and self.clock is None:
            return None
        return wall_time(timestamp, self.clock.at(self.end_offset(position)) if self.clock else None)

    def _timestamp_at(self, start: int) -> Timestamp | None:
        prefix = PREFIX.match(self.data, self.skip_tag(start) if self.is_tagged else start)
        is_long = prefix is not None and prefix.end() - prefix.start() > MIN_TIMESTAMP_BYTES
        return parse_timestamp(prefix[0]) if prefix and is_long else None
