"""The measurements and facts of a log as columns; records are created on demand."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby, islice, pairwise
from operator import itemgetter
from typing import cast

from batchai_magics.metrics.column import Column
from batchai_magics.metrics.measurement import (
    Fact,
    Measurement,
    MetricName,
    Record,
    lines_of,
    measurement,
)

_WINDOW_ROWS = 8192  # whose records are created at once

Rank = int | None
Row = tuple[int, Sequence[Record]]  # its number; a fact, or the measurements of a line


class MeasurementTable(Collection[Record]):
    """The records of a log in file order, a row each line or fact. Lines with the same metrics share columns.

    A fact from the same line as measurements may share their row; it comes first.

    Attributes:
        lines: The columns of all lines with measurements.
        facts: The facts, each with its row.
        row_count: The number of rows, including those that were left out.
    """

    def __init__(
        self, lines: Iterable[LineColumns] = (), facts: Iterable[tuple[int, Fact]] = (), row_count: int = 0
    ) -> None:
        self._lines = {columns.metrics: columns for columns in lines}
        self.facts = [*facts]
        self.row_count = row_count

    @classmethod
    def of(cls, records: Iterable[Record]) -> MeasurementTable:
        """Convert records to a table; a table is returned as it is."""
        if isinstance(records, MeasurementTable):
            return records
        table = cls()
        table.add_records(records)
        return table

    @classmethod
    def of_rows(
        cls, facts: Sequence[tuple[int, Fact]], rows: Iterable[Row], columns: Sequence[LineColumns]
    ) -> MeasurementTable | None:
        """The table of facts in order, of measurements by row, and of columns.

        None if two lines have the same row.
        """
        numbers = list[int]()
        alone = defaultdict[tuple[MetricName, ...], list[tuple[int, Sequence[Measurement]]]](list)
        for row, records in rows:
            for line in lines_of(records):
                numbers.append(row)
                alone[_metrics_of(line)].append((row, line))
        if numbers:
            others = chain.from_iterable(part.rows for part in columns)
            if len({*numbers}) < len(numbers) or not {*numbers}.isdisjoint(others):
                return None
        parts = defaultdict[tuple[MetricName, ...], list[LineColumns]](list)
        for metrics, lines in alone.items():
            parts[metrics].append(LineColumns.of(metrics, sorted(lines, key=itemgetter(0))))
        for part in columns:
            parts[part.metrics].append(part)
        joined = [*map(LineColumns.joined, parts.values())]
        last_rows = [*(part.rows[-1] for part in joined), *(row for row, _ in facts[-1:])]
        return cls(joined, facts, 1 + max(last_rows, default=-1))

    def __len__(self) -> int:
        return len(self.facts) + sum(len(lines.rows) * len(lines.metrics) for lines in self.lines)

    def __iter__(self) -> Iterator[Record]:
        return chain.from_iterable(records for _, records in self.rows())

    def rows(self) -> Iterator[Row]:
        """The facts, and the measurements of each line, in order."""
        for part in self.parts():
            rows: list[Row] = [(row, [fact]) for row, fact in part.facts]
            rows += chain.from_iterable(lines.measurements() for lines in part.lines)
            yield from sorted(rows, key=itemgetter(0))

    def __contains__(self, record: object) -> bool:
        return any(record == other for other in self)

    @property
    def lines(self) -> Collection[LineColumns]:
        """The columns of all lines with measurements."""
        return self._lines.values()

    @property
    def names(self) -> set[str]:
        """The names of all metrics."""
        return {name for lines in self.lines for name in lines.names}

    def parts(self, *keys: str) -> Iterator[MeasurementTable]:
        """The table in parts of some thousand rows; a fact with one of `keys` starts a new part."""
        windows = range(0, self.row_count, _WINDOW_ROWS)
        begins = {0, *windows, *(row for row, fact in self.facts if fact.key in keys)}
        for begin, end in pairwise([*sorted(begins), self.row_count]):
            yield self.between(begin, end)

    def between(self, begin: int, end: int) -> MeasurementTable:
        """The rows from `begin` to `end`, which keep their numbers."""
        if begin <= 0 and end >= self.row_count:
            return self
        first, last = (bisect_left(self.facts, row, key=itemgetter(0)) for row in (begin, end))
        return self.with_lines([lines.between(begin, end) for lines in self.lines], self.facts[first:last])

    def with_lines(
        self, lines: Iterable[LineColumns], facts: Iterable[tuple[int, Fact]] | None = None
    ) -> MeasurementTable:
        """The table with other lines, without the empty ones."""
        nonempty = [columns for columns in lines if columns.rows]
        return MeasurementTable(nonempty, self.facts if facts is None else facts, self.row_count)

    def copy(self) -> MeasurementTable:
        """A copy with columns of its own."""
        return self.with_lines(lines.take(range(len(lines.rows))) for lines in self.lines)

    def followed_by(self, later: MeasurementTable) -> MeasurementTable:
        """A table with the rows of this part and of a later one."""
        table = self.copy()
        table._extend(later, first_row=0)
        table.row_count = later.row_count
        return table

    def extend(self, records: Iterable[Record]) -> None:
        """Append records."""
        if isinstance(records, MeasurementTable):
            self._extend(records, first_row=self.row_count)
            self.row_count += records.row_count
        else:
            self.add_records(records)

    def _extend(self, later: MeasurementTable, *, first_row: int) -> None:
        self.facts += [(first_row + row, fact) for row, fact in later.facts]
        for lines in later.lines:
            columns = self._lines.get(lines.metrics)
            if columns is None:
                columns = self._lines[lines.metrics] = LineColumns(lines.metrics)
            columns.extend(lines, first_row)

    def add_records(self, records: Iterable[Record]) -> None:
        """Add single records."""
        rows = _rows_of(records)
        while part := [*islice(rows, _WINDOW_ROWS)]:
            facts = list[tuple[int, Fact]]()
            lines = defaultdict[tuple[MetricName, ...], list[tuple[int, Sequence[Measurement]]]](list)
            for row, line in enumerate(part, self.row_count):
                if isinstance(line[0], Fact):
                    facts.append((row, line[0]))
                    continue
                numbers = cast("Sequence[Measurement]", line)
                lines[_metrics_of(numbers)].append((row, numbers))
            self._extend(
                MeasurementTable((LineColumns.of(*item) for item in lines.items()), facts), first_row=0
            )
            self.row_count += len(part)


def _metrics_of(line: Iterable[Measurement]) -> tuple[MetricName, ...]:
    return tuple([MetricName(number.name, number.unit, number.phase) for number in line])


def _rows_of(records: Iterable[Record]) -> Iterator[Sequence[Record]]:
    """Each fact, and the measurements of each line, in order."""
    for is_fact, part in groupby(records, lambda record: isinstance(record, Fact)):
        if is_fact:
            yield from zip(part)
        else:
            yield from lines_of(part)


@dataclass(slots=True)
class LineColumns:
    """The lines with these metrics in file order: their rows, positions and values.

    `steps` are those of each metric: they differ where one was placed elsewhere on the timeline of the run.
    `fits` are the numbers of the headings above, as `FitHeadings` counts them; 0 before that.
    """

    metrics: tuple[MetricName, ...]
    rows: Column = field(default_factory=Column)
    steps: Sequence[Column] = ()
    values: Sequence[Column] = ()
    epochs: Column = field(default_factory=Column)
    ranks: Column = field(default_factory=Column)
    offsets: Column = field(default_factory=Column)
    times: Column = field(default_factory=Column)
    fits: Column = field(default_factory=Column)

    def __post_init__(self) -> None:
        """Give each metric its columns."""
        self.steps = self.steps or [Column()] * len(self.metrics)
        self.values = self.values or [Column() for _ in self.metrics]
        self.fits = self.fits or Column.repeated(0, len(self.rows))

    @classmethod
    def of(
        cls, metrics: tuple[MetricName, ...], lines: Iterable[tuple[int, Sequence[Measurement]]]
    ) -> LineColumns:
        """Lines with these metrics and their rows; all numbers of a line have the position of its first."""
        rows, numbers = zip(*lines, strict=True)
        _, _, _, steps, epochs, ranks, offsets, times, _ = zip(*(line[0] for line in numbers), strict=True)
        values = zip(*([number.value for number in line] for line in numbers), strict=True)
        columns = map(Column, (rows, steps, epochs, ranks, offsets, times, *values))
        return cls.at_steps(metrics, *columns)

    @classmethod
    def at_steps(
        cls, metrics: tuple[MetricName, ...], rows: Column, steps: Column, *columns: Column
    ) -> LineColumns:
        """Lines whose metrics share their steps: epochs, ranks, offsets, times, and values of each metric."""
        epochs, ranks, offsets, times, *values = columns
        return cls(metrics, rows, [steps] * len(metrics), values, epochs, ranks, offsets, times)

    @classmethod
    def joined(cls, parts: Iterable[LineColumns]) -> LineColumns:
        """Lines with the same metrics, whose rows may be mixed, in order."""
        first, *others = sorted(parts, key=lambda part: part.rows[0])
        is_mixed = any(part.rows[-1] > after.rows[0] for part, after in pairwise((first, *others)))
        for part in others:
            first.extend(part)
        return (
            first.take(sorted(range(len(first.rows)), key=[*first.rows].__getitem__)) if is_mixed else first
        )

    @property
    def names(self) -> list[str]:
        """The names of their metrics."""
        return [metric.name for metric in self.metrics]

    def value(self, name: str) -> Column:
        """The values of one of their metrics."""
        return self.values[self.names.index(name)]

    def between(self, begin: int, end: int) -> LineColumns:
        """The lines of a range of rows."""
        return self.take(range(bisect_left(self.rows, begin), bisect_left(self.rows, end)))

    def take(self, indices: Sequence[int]) -> LineColumns:
        """The lines at these indices, in this order."""
        selected: dict[int, Column] = {}  # metrics share their steps
        for column in self._columns:
            if id(column) not in selected:
                selected[id(column)] = column.take(indices)
        columns = [selected[id(column)] for column in self._columns]
        count = len(self.metrics)
        return LineColumns(
            self.metrics, self.rows.take(indices), columns[:count], columns[count:-5], *columns[-5:]
        )

    def extend(self, later: LineColumns, first_row: int = 0) -> None:
        """Append lines; `first_row` is the first row of their table."""
        self.rows.extend([first_row + row for row in later.rows])
        pairs = zip(self._columns, later._columns, strict=True)
        for column, other in {id(column): (column, other) for column, other in pairs}.values():
            column.extend(other)

    @property
    def _columns(self) -> list[Column]:
        return [*self.steps, *self.values, self.epochs, self.ranks, self.offsets, self.times, self.fits]

    def measurements(self) -> Iterator[Row]:
        """The numbers of each line."""
        positions = zip(self.epochs, self.ranks, self.offsets, self.times, strict=True)
        steps, values = zip(*self.steps, strict=True), zip(*self.values, strict=True)
        for row, (epoch, rank, offset, time), line_steps, numbers in zip(
            self.rows, positions, steps, values, strict=True
        ):
            line = [
                measurement((name, value, unit, step, epoch, rank, offset, time, phase))
                for (name, unit, phase), step, value in zip(self.metrics, line_steps, numbers, strict=True)
            ]
            yield row, line


def by_rank(
    parts: Iterable[tuple[LineColumns, Sequence[Column]]], *, unknown: Rank = None
) -> Mapping[Rank, list[Column]]:
    """Join the columns of groups of lines by rank, in file order; each group has equally many columns.

    Ranks are in the order of their first lines; lines without one count as those of `unknown`.
    """
    pieces: defaultdict[Rank, list[list[Column]]] = defaultdict(list)
    for lines, columns in parts:
        for rank, indices in indices_by_rank(lines.ranks).items():
            part = [lines.rows, *columns]
            if len(indices) < len(lines.rows):
                part = [column.take(indices) for column in part]
            pieces[unknown if rank is None else rank].append(part)
    joined = {rank: in_row_order(rank_pieces) for rank, rank_pieces in pieces.items()}
    return {rank: columns for rank, (_, *columns) in sorted(joined.items(), key=lambda item: item[1][0][0])}


def indices_by_rank(ranks: Column) -> Mapping[Rank, Sequence[int]]:
    """The indices of each rank."""
    if ranks.is_constant:
        return {ranks[0]: range(len(ranks))}
    indices: defaultdict[Rank, array[int]] = defaultdict(partial(array, "q"))
    for index, rank in enumerate(ranks):
        indices[rank].append(index)
    return indices


def in_row_order(pieces: Sequence[Sequence[Column]]) -> Sequence[Column]:
    """Join pieces of columns and sort them by the first column, the rows."""
    if len(pieces) == 1:
        return pieces[0]
    columns = []
    for parts in zip(*pieces, strict=True):
        column = Column()
        for part in parts:
            column.extend(part)
        columns.append(column)
    order = sorted(range(len(columns[0])), key=[*columns[0]].__getitem__)
    return [column.take(order) for column in columns]
