"""The records of a job's logs: with ranks and times, without duplicates, of several files in order."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, NamedTuple, Protocol

from batchai_magics.log_lines import Span, WriteTime
from batchai_magics.metrics.column import Column
from batchai_magics.metrics.measurement import ATTEMPT, Fact, Measurement, MetricName, Record
from batchai_magics.metrics.measurement_table import LineColumns, MeasurementTable
from batchai_magics.metrics.reading.log_parser import Parser
from batchai_magics.metrics.runs.metric_traits import traits_of
from batchai_magics.metrics.runs.number_frames import numbers
from batchai_magics.metrics.timestamps import WriteTimes

if TYPE_CHECKING:
    from batchai_magics.metrics.reading.log_file import LogFile


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
    """Parses a block and yields its records, each with its rank and write time, as the block gives them.

    Each rank's output is parsed together, which is much faster than switching ranks line by line. Its first
    line in an attempt has nothing in common with its last one in the attempt before.
    """
    clock, parts = clock_of(block), dict[int | None, list[RankPart]]()
    for part in parts_of(block):
        parts.setdefault(part.rank, []).append(part)
    records = [*_records_of(None, parser, parts.pop(None), clock)] if None in parts else []
    attempts = [record.offset for record in records if is_attempt(record)]
    for begin, end in pairwise([0, *attempts, math.inf]):
        records += parser.end_processes() if begin else ()
        for rank, rank_parts in parts.items():
            of_attempt = [part for part in rank_parts if begin <= part.offset < end]
            records += _records_of(rank, parser, of_attempt, clock) if of_attempt else ()
    yield from sorted(records, key=attrgetter("offset"))


def is_attempt(record: Record) -> bool:
    """Whether another attempt begins with a record."""
    return isinstance(record, Fact) and record.key == ATTEMPT


def _records_of(
    rank: int | None, parser: Parser, parts: Sequence[RankPart], clock: WriteTimes | None
) -> Sequence[Record]:
    """Parses the output of one rank, as if its parts were contiguous."""
    first, *others = parts
    clock = clock_of_file(clock, parser.file_of(rank), first, parts[-1].end)
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
        return self.clock.at(self.offset(end - 1) + 1) if self.clock else None


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
    if not times:
        return None
    return WriteTimes([written.start for written in times], [written.time for written in times])


def clock_of_file(clock: WriteTimes | None, file: LogFile, first: RankPart, end: int) -> WriteTimes | None:
    """The write times of a file from its first part in a block up to `end`, and of the line that goes on."""
    if clock is None:
        return None
    before, file.last_time = file.last_time, clock.at(end + 1)
    return replace(clock, begin=first.offset, before=before)


def _part(block: _LogBlock, start: int, end: int, rank: int | None) -> RankPart:
    return RankPart(block.data[start - block.offset : end - block.offset], start, rank)


def in_time_order(parts: Iterable[Iterable[Record]]) -> MeasurementTable:
    """The records of several files in the order of their times; without times, file by file."""
    tables = [table for table in map(MeasurementTable.of, parts) if len(table)]
    if len(tables) < 2:
        return tables[0] if tables else MeasurementTable()
    timed = [(time, file, row) for file, table in enumerate(tables) for row, time in _times(table)]
    new_rows: list[dict[int, int]] = [{} for _ in tables]
    for new_row, (_, file, row) in enumerate(sorted(timed, key=itemgetter(0))):
        new_rows[file][row] = new_row
    lines = defaultdict[tuple[MetricName, ...], list[LineColumns]](list)
    facts = list[tuple[int, Fact]]()
    for table, row_of in zip(tables, new_rows, strict=True):
        for columns in table.copy().lines:
            columns.rows = Column([row_of[row] for row in columns.rows])
            lines[columns.metrics].append(columns)
        facts += [(row_of[row], fact) for row, fact in table.facts]
    joined = map(LineColumns.joined, lines.values())
    return MeasurementTable(joined, sorted(facts, key=itemgetter(0)), len(timed))


def _times(table: MeasurementTable) -> Iterator[tuple[int, float]]:
    """Each row and the time up to which it was written; without a time of its own, the row before's."""
    times = {row: fact.wall_time for row, fact in table.facts}
    for lines in table.lines:
        times.update(zip(lines.rows, lines.times, strict=True))
    latest = 0.0
    for row, time in sorted(times.items(), key=itemgetter(0)):
        latest = max(latest, time or 0.0)
        yield row, latest


MAX_NUMBERS = 1 << 18  # that are remembered of each source


class PrintedNumbers:
    """Finds numbers that a run has both printed and logged to a file: a name at a step counts once.

    The one that is read first counts; an attempt of a run may repeat the steps of the previous one.
    """

    def __init__(self) -> None:
        self._printed: dict[int, None] = {}
        self._logged: dict[int, None] = {}

    def new_printed(self, records: Iterable[Record]) -> list[Record]:
        """The printed records without those that were read from a file before."""
        return self._new(records, source=self._printed, other=self._logged)

    def new_logged(self, records: Iterable[Record]) -> list[Record]:
        """The records of files without those that were printed."""
        return self._new(records, source=self._logged, other=self._printed)

    def _new(
        self, records: Iterable[Record], *, source: dict[int, None], other: dict[int, None]
    ) -> list[Record]:
        new = []
        for record in records:
            if is_attempt(record):
                self._printed.clear()
                self._logged.clear()
            keys = {key for number in numbers([record]) if (key := _number_key(number)) is not None}
            if isinstance(record, Measurement) and keys & other.keys():
                continue
            source.update(dict.fromkeys(keys))
            while len(source) > MAX_NUMBERS:
                del source[next(iter(source))]
            new.append(record)
        return new


def _number_key(number: Measurement) -> int | None:
    """Identifies a name at a step, or at an epoch if there is no step; None for a number without either."""
    if number.step is None and number.epoch is None:
        return None
    traits = traits_of(number.name, number.phase)
    position = ("epoch", number.epoch) if number.step is None else ("step", number.step)
    return hash((traits.phase, traits.quantity, position, number.rank or 0))
