"""Parses blocks of a log into records, with rank and time of each line, and these into points to export."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import NamedTuple, Protocol

from batchai_magics.log_lines import Span, WriteTime
from batchai_magics.metrics.measurement import ATTEMPT, Fact, Measurement, Record
from batchai_magics.metrics.reading.log_parser import Parser
from batchai_magics.metrics.reading.timestamps import WriteTimes
from batchai_magics.metrics.runs.fits import NO_FIT
from batchai_magics.metrics.runs.metric_traits import traits_of
from batchai_magics.metrics.runs.number_frames import numbers
from batchai_magics.metrics.runs.positions import Positions
from batchai_magics.metrics.runs.timeline import Timeline
from batchai_magics.models.runs.scalar_export import ScalarPoint


class _LogBlock(Protocol):
    """A block of a log from `offset` on, with its writers and write times."""

    @property
    def data(self) -> bytes: ...
    @property
    def offset(self) -> int: ...
    @property
    def spans(self) -> Sequence[Span]: ...
    @property
    def times(self) -> Sequence[WriteTime]: ...


def records_in(block: _LogBlock, parser: Parser) -> Iterator[Record]:
    """Parses a block, given which rank wrote what when; yields the records.

    Each rank's output is parsed together, which is much faster than switching ranks line by line.
    """
    clock, parts = clock_of(block), dict[int | None, list[RankPart]]()
    for part in parts_of(block):
        parts.setdefault(part.rank, []).append(part)
    records = (_records_of(rank, parser, rank_parts, clock) for rank, rank_parts in parts.items())
    yield from sorted(chain.from_iterable(records), key=attrgetter("offset"))


def _records_of(
    rank: int | None, parser: Parser, parts: Sequence[RankPart], clock: WriteTimes | None
) -> Sequence[Record]:
    """Parses the output of one rank, as if its parts were contiguous."""
    first, *others = parts
    if not others:
        return parser.feed(first.data, rank, offset=first.offset, clock=clock)
    data = b"".join(part.data for part in parts)
    ends = [*accumulate((len(part.data) for part in parts), initial=first.offset)][1:]
    concatenation = _Concatenation(ends, [part.end for part in parts], clock)
    records = parser.feed(data, rank, offset=first.offset, clock=concatenation if clock else None)
    parser.feed(b"", rank, offset=parts[-1].end, clock=clock)  # later bytes are at their own offsets
    return [record._replace(offset=concatenation.offset(record.offset)) for record in records]


class _Concatenation(NamedTuple):
    """Parts of a file that are parsed as one text: their ends in that text, and in the file; write times."""

    ends: Sequence[int]
    file_ends: Sequence[int]
    clock: WriteTimes | None

    def offset(self, end: int) -> int:
        """The file offset for an offset in the text."""
        part = bisect_left(self.ends, end)
        return end - self.ends[part] + self.file_ends[part]

    def at(self, end: int) -> float | None:
        """When the line that ends at this offset of the text was written."""
        return self.clock.at(self.offset(end)) if self.clock else None


class RankPart(NamedTuple):
    """Bytes written by a rank, with their offset; None for an unknown rank."""

    data: bytes
    offset: int
    rank: int | None

    @property
    def end(self) -> int:
        """The offset after them."""
        return self.offset + len(self.data)


def parts_of(block: _LogBlock) -> Iterator[RankPart]:
    """The parts of a block, in order."""
    at, end = block.offset, block.offset + len(block.data)
    for span in block.spans:
        if at < span.start:
            yield _part(block, at, span.start, None)
        yield _part(block, span.start, span.end, span.rank)
        at = span.end
    if at < end:
        yield _part(block, at, end, None)


def clock_of(block: _LogBlock) -> WriteTimes | None:
    """The write times of a block, if they are known."""
    times = block.times
    return (
        WriteTimes([written.start for written in times], [written.time for written in times])
        if times
        else None
    )


def _part(block: _LogBlock, start: int, end: int, rank: int | None) -> RankPart:
    return RankPart(block.data[start - block.offset : end - block.offset], start, rank)


class MetricPoints:
    """Converts records to points as they arrive; the steps of a series only increase.

    Where a position goes back, or repeats below the heading of another fit, its steps go on behind those
    before; an attempt repeats those of the previous one. Numbers without a time get the last known one.
    """

    def __init__(self, started: float) -> None:
        self._time = started
        self._timeline, self._positions = Timeline(), Positions()
        self._shifts: dict[tuple[str, int | None], tuple[int, int, int]] = {}  # last step, what is added, fit

    def of(self, records: Iterable[Record]) -> Iterator[ScalarPoint]:
        """Yields the points of the next records."""
        table = self._positions.of(self._timeline.add(records))
        fits = dict(chain.from_iterable(zip(lines.rows, lines.fits, strict=True) for lines in table.lines))
        for row, records_of_row in table.rows():
            if isinstance(records_of_row[0], Fact) and records_of_row[0].key == ATTEMPT:
                self._shifts.clear()
            for number in numbers(records_of_row):
                self._time = self._time if number.wall_time is None else number.wall_time
                step = self._step_of(number, fits.get(row, NO_FIT))
                yield ScalarPoint(number.name, number.value, step, self._time, number.rank)

    def _step_of(self, number: Measurement, fit: int) -> int:
        """The step of the next point of a series."""
        series = (number.name, number.rank)
        step = self._positions.count(*series) if number.step is None else number.step
        last, shift, last_fit = self._shifts.get(series, (step, 0, fit))
        if step > last:
            shift = 0  # the epoch of a counter that went back is known now
        elif step + shift < last + (fit != last_fit):
            shift = last + 1 - step
        self._shifts[series] = step + shift, shift, fit
        return step + shift

    def now(self) -> None:
        """Gives numbers without a time the current one."""
        self._time = time.time()


MAX_PLACES = 1 << 18


class PrintedNumbers:
    """Finds numbers that a run has both printed and logged to a file: a name at a step counts once.

    The one that is read first counts; an attempt of a run may repeat the steps of the previous one.
    """

    def __init__(self) -> None:
        self._printed: dict[int, None] = {}
        self._logged: dict[int, None] = {}

    def new_printed(self, records: Iterable[Record]) -> list[Record]:
        """The printed records without those that were read from a file before."""
        return self._new(records, own=self._printed, other=self._logged)

    def new_logged(self, records: Iterable[Record]) -> list[Record]:
        """The records of files without those that were printed."""
        return self._new(records, own=self._logged, other=self._printed)

    def _new(
        self, records: Iterable[Record], *, own: dict[int, None], other: dict[int, None]
    ) -> list[Record]:
        new = []
        for record in records:
            if isinstance(record, Fact) and record.key == ATTEMPT:
                self._printed.clear()
                self._logged.clear()
            places = {place for number in numbers([record]) if (place := _number_key(number)) is not None}
            if isinstance(record, Measurement) and places & other.keys():
                continue
            own.update(dict.fromkeys(places))
            while len(own) > MAX_PLACES:
                del own[next(iter(own))]
            new.append(record)
        return new


def _number_key(number: Measurement) -> int | None:
    """Identifies a name at a step, or at an epoch if there is no step; None for a number without a place."""
    if number.step is None and number.epoch is None:
        return None
    traits = traits_of(number.name, number.phase)
    position = ("epoch", number.epoch) if number.step is None else ("step", number.step)
    return hash((traits.phase, traits.quantity, position, number.rank or 0))
