"""Whole lines of one stream, with the places that were read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from batchai_magics.metrics.reading.leads import recent_lead, tag_lead
from batchai_magics.metrics.reading.memory import Memories, Pace
from batchai_magics.metrics.reading.prefixes import LABEL, PREFIX, rank_of
from batchai_magics.metrics.reading.times import SHORTEST_BYTES, HasTimes, Stamp, stamp_in, wall_time


@dataclass(slots=True)
class View:
    """Whole lines of one stream, while records are read from them from left to right."""

    data: bytes
    stream_rank: int | None  # None leaves it to labels
    offset: int  # of the data's first byte …
    line_end: int | None  # … or the offset of the line's end, where the data are one line, cleaned
    pace: Pace
    memories: Memories = field(default_factory=Memories)
    done: int = 0  # where the last record ended
    begun: int = 0  # where the last record began …
    first: int | None = None  # … and the first one
    is_tagged: bool = False  # each line begins with a tag, which may tell its rank
    is_continued: bool = False  # the first line begins in the middle of one that was too long
    raw_ends: Mapping[int, int] | None = None  # of the lines, if something was taken out of them
    clock: HasTimes | None = None  # for lines that do not tell a better time
    tag_stamp: Stamp | None = None  # of the line's tag
    rank: int | None = field(init=False)  # of the line
    _stamp: tuple[int, Stamp | None] = (-1, None)  # the last line that was asked for one, and its answer

    def __post_init__(self) -> None:
        self.rank = self.stream_rank

    def end_offset(self, position: int) -> int:
        """The byte offset of the end of the line at a position."""
        if self.line_end is not None:
            return self.line_end
        newline = self.data.find(b"\n", position)
        return self.offset_of(newline + 1 if newline >= 0 else len(self.data))

    def offset_of(self, end: int) -> int:
        """The byte offset of the place in the data where a line ends."""
        offset = self.offset + end
        return offset if self.raw_ends is None else self.raw_ends[offset]

    def before(self, position: int) -> bytes:
        """What stands left of a position on its line, back to the last record; `rank` is then the line's."""
        start = self.data.rfind(b"\n", self.done, position) + 1
        if self.is_tagged and (start or not self.done):
            start = self.pass_tag(start)
        elif self.is_tagged:  # who read the record before may have passed the tag by
            self.pass_tag(self.data.rfind(b"\n", 0, self.done) + 1)
        return self.data[start or self.done : position]

    def pass_tag(self, start: int) -> int:
        """Take the line's rank and time from its tag; the text begins where the tag ends."""
        text = tag_lead(self.data, start)
        lead = recent_lead(text)
        if lead is None:
            return start
        self.rank, self.tag_stamp = lead.rank(self.stream_rank), lead.stamp
        return start + len(text)

    def rank_at(self, before: bytes) -> int | None:
        """The stream's rank, or the one of a label at the end of the text before the record."""
        if self.rank is None and before:
            return rank_of(LABEL.search(before))
        return self.rank

    def wall_time(self, position: int) -> float | None:
        """When the line was printed on which a record begins here."""
        start = self.data.rfind(b"\n", 0, position) + 1
        if position - start <= SHORTEST_BYTES:
            stamp = self.tag_stamp
        else:
            if start != self._stamp[0]:
                self._stamp = start, self._stamp_at(start)
            stamp = self._stamp[1] or self.tag_stamp
        if stamp is None and self.clock is None:
            return None
        return wall_time(stamp, self.clock.at(self.end_offset(position)) if self.clock else None)

    def _stamp_at(self, start: int) -> Stamp | None:
        prefix = PREFIX.match(self.data, self.pass_tag(start) if self.is_tagged else start)
        is_long = prefix is not None and prefix.end() - prefix.start() > SHORTEST_BYTES
        return stamp_in(prefix[0]) if prefix and is_long else None
