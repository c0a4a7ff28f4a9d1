"""The measurements and facts of a log as columns: a record is made when somebody asks for it."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby, pairwise
from operator import itemgetter
from typing import cast

from batchai_magics.metrics.column import Column
from batchai_magics.metrics.measurement import (
    Fact,
    Measurement,
    Record,
    is_step_line,
    lines_of,
    measurement,
)
from batchai_magics.metrics.reading.line_plan import MetricName
from batchai_magics.metrics.reading.readings import LineGroup, Readings

_WINDOW_ROWS = 8192  # of which records are made at once

Rank = int | None
Row = tuple[int, "LineColumns | None", Sequence[Record]]  # the columns of a line; None for a fact


class MeasurementTable(Collection[Record]):
    """The records of a log in file order, a row each line or fact. Lines with the same metrics share columns.

    A fact that the same line tells as its numbers may share their row; it is in front of them.

    Attributes:
        lines: The columns of all lines with measurements.
        facts: The facts, each with its row.
        row_count: The number of rows, with those that were left out.
    """

    def __init__(
        self, lines: Iterable[LineColumns] = (), facts: Iterable[tuple[int, Fact]] = (), row_count: int = 0
    ) -> None:
        self._lines = {each.metrics: each for each in lines}
        self.facts = [*facts]
        self.row_count = row_count

    @classmethod
    def of(cls, records: Iterable[Record]) -> MeasurementTable:
        """The table of some records: themselves, if they are one."""
        if isinstance(records, MeasurementTable):
            return records
        table = cls()
        table.add_records(records)
        return table

    def __len__(self) -> int:
        return len(self.facts) + sum(len(lines.rows) * len(lines.metrics) for lines in self.lines)

    def __iter__(self) -> Iterator[Record]:
        return chain.from_iterable(rows_of(self))

    def __contains__(self, record: object) -> bool:
        return any(record == each for each in self)

    @property
    def lines(self) -> Collection[LineColumns]:
        """The columns of all lines with measurements."""
        return self._lines.values()

    def windows(self) -> Iterator[list[Row]]:
        """The rows of the table, some thousands at a time."""
        at = 0
        for begin in range(0, self.row_count, _WINDOW_ROWS):
            end = begin + _WINDOW_ROWS
            window: list[Row] = []
            while at < len(self.facts) and self.facts[at][0] < end:
                window.append((self.facts[at][0], None, [self.facts[at][1]]))
                at += 1
            for lines in self.lines:
                window += lines.measurements(begin, end)
            window.sort(key=itemgetter(0))
            yield window

    def between(self, begin: int, end: int) -> MeasurementTable:
        """The rows from `begin` to `end`, which keep their numbers."""
        if begin <= 0 and end >= self.row_count:
            return self
        facts = [each for each in self.facts if begin <= each[0] < end]
        return self.with_lines([lines.between(begin, end) for lines in self.lines], facts)

    def with_lines(
        self, lines: Iterable[LineColumns], facts: Iterable[tuple[int, Fact]] | None = None
    ) -> MeasurementTable:
        """The table with other lines, without the empty ones."""
        found = [each for each in lines if each.rows]
        return MeasurementTable(found, self.facts if facts is None else facts, self.row_count)

    def copy(self) -> MeasurementTable:
        """A table of its own with the same rows."""
        return self.with_lines(lines.take(range(len(lines.rows))) for lines in self.lines)

    def followed_by(self, later: MeasurementTable) -> MeasurementTable:
        """This part of a table and a later one."""
        table = self.copy()
        table._extend(later, first_row=0)
        table.row_count = later.row_count
        return table

    def extend(self, records: Iterable[Record]) -> None:
        """Add records behind the others."""
        if isinstance(records, MeasurementTable):
            self._extend(records, first_row=self.row_count)
            self.row_count += records.row_count
        else:
            self.add_records(records)

    def _extend(self, later: MeasurementTable, *, first_row: int) -> None:
        self.facts += [(first_row + row, fact) for row, fact in later.facts]
        for lines in later.lines:
            self._lines_of(lines.metrics).extend(lines, first_row)

    def add(self, readings: Readings) -> None:
        """Add what a block of lines gives."""
        facts = [(row, record) for row, every in readings.single for record in every]
        if not all(isinstance(record, Fact) for _, record in facts):
            self.add_records(readings.records())
        elif facts or readings.groups:
            ends = [*(row for row, _ in facts), *(group.rows[-1] for group in readings.groups)]
            told = [(self.row_count + row, cast("Fact", fact)) for row, fact in facts]
            self.facts += sorted(told, key=itemgetter(0))
            self._add_groups(readings.groups)
            self.row_count += 1 + max(ends)

    def add_records(self, records: Iterable[Record]) -> None:
        """Add single records."""
        groups: dict[tuple[MetricName, ...], LineGroup] = {}
        row = 0
        for line in rows_of(records):
            if isinstance(line[0], Fact):
                self.facts.append((self.row_count + row, line[0]))
            else:
                _add_line(groups, row, cast("Sequence[Measurement]", line))
            row += 1
            if row == _WINDOW_ROWS:
                self._add_groups(groups.values())
                self.row_count += row
                groups, row = {}, 0
        self._add_groups(groups.values())
        self.row_count += row

    def _add_groups(self, groups: Iterable[LineGroup]) -> None:
        by_metrics: defaultdict[tuple[MetricName, ...], list[LineGroup]] = defaultdict(list)
        for group in groups:
            by_metrics[group.metrics].append(group)
        for metrics, same in by_metrics.items():
            same.sort(key=lambda group: group.rows[0])
            is_mixed = any(group.rows[-1] > after.rows[0] for group, after in pairwise(same))
            lines = LineColumns(metrics) if is_mixed else self._lines_of(metrics)
            for group in same:
                lines.add(group, self.row_count)
            if is_mixed:  # lines of several forms in turn
                order = sorted(range(len(lines.rows)), key=[*lines.rows].__getitem__)
                self._lines_of(metrics).extend(lines.take(order))

    def _lines_of(self, metrics: tuple[MetricName, ...]) -> LineColumns:
        lines = self._lines.get(metrics)
        if lines is None:
            lines = self._lines[metrics] = LineColumns(metrics)
        return lines


def rows_of(records: Iterable[Record]) -> Iterator[Sequence[Record]]:
    """Each fact, and the measurements of each line, in order."""
    if isinstance(records, MeasurementTable):
        for window in records.windows():
            for _, _, line in window:
                yield line
        return
    for is_fact, part in groupby(records, lambda record: isinstance(record, Fact)):
        if is_fact:
            yield from zip(part)
        else:
            yield from lines_of(part)


def _add_line(groups: dict[tuple[MetricName, ...], LineGroup], row: int, line: Sequence[Measurement]) -> None:
    metrics = tuple([MetricName(number.name, number.unit, number.phase) for number in line])
    group = groups.get(metrics)
    if group is None:
        group = groups[metrics] = LineGroup.empty(metrics)
    first = line[0]
    cast("list[int]", group.rows).append(row)
    group.steps.append(first.step)
    group.epochs.append(first.epoch)
    group.ranks.append(first.rank)
    group.ends.append(first.offset)
    group.times.append(first.wall_time)
    for column, number in zip(group.values, line, strict=True):
        cast("list[float]", column).append(number.value)


@dataclass(slots=True)
class LineColumns:
    """The lines with these metrics in file order: their rows, positions and values.

    `steps` are those of each metric: they differ where one was placed elsewhere on the timeline of the run.
    """

    metrics: tuple[MetricName, ...]
    rows: Column = field(default_factory=Column)
    steps: Sequence[Column] = ()
    values: Sequence[Column] = ()
    epochs: Column = field(default_factory=Column)
    ranks: Column = field(default_factory=Column)
    offsets: Column = field(default_factory=Column)
    times: Column = field(default_factory=Column)

    def __post_init__(self) -> None:
        """Give each metric its columns."""
        self.steps = self.steps or [Column()] * len(self.metrics)
        self.values = self.values or [Column() for _ in self.metrics]

    def add(self, group: LineGroup, first_row: int) -> None:
        """Add lines behind the others; `first_row` is the first row of their block."""
        first, last = group.rows[0], group.rows[-1]
        is_all = last - first + 1 == len(group.rows)
        rows = range(first_row + first, first_row + last + 1)
        self.rows.extend([*rows] if is_all else [first_row + row for row in group.rows])
        self.steps[0].extend(group.steps)
        self.epochs.extend(group.epochs)
        self.ranks.extend(group.ranks)
        self.offsets.extend(group.ends)
        self.times.extend(group.times)
        for column, values in zip(self.values, group.values, strict=True):
            column.extend(values)

    @property
    def is_benchmark(self) -> bool:
        """Whether they are step lines of tf_cnn_benchmarks."""
        return is_step_line(Measurement(name, 0.0, unit) for name, unit, _ in self.metrics)

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
        taken: dict[int, Column] = {}  # metrics share their steps
        for column in self._columns:
            if id(column) not in taken:
                taken[id(column)] = column.take(indices)
        columns = [taken[id(column)] for column in self._columns]
        count = len(self.metrics)
        return LineColumns(
            self.metrics, self.rows.take(indices), columns[:count], columns[count:-4], *columns[-4:]
        )

    def extend(self, later: LineColumns, first_row: int = 0) -> None:
        """Add lines behind the others; `first_row` is the first row of their table."""
        self.rows.extend([first_row + row for row in later.rows])
        pairs = zip(self._columns, later._columns, strict=True)
        for column, other in {id(column): (column, other) for column, other in pairs}.values():
            column.extend(other)

    @property
    def _columns(self) -> list[Column]:
        return [*self.steps, *self.values, self.epochs, self.ranks, self.offsets, self.times]

    def measurements(self, begin: int, end: int) -> Iterator[Row]:
        """The lines of a range of rows."""
        first, last = bisect_left(self.rows, begin), bisect_left(self.rows, end)
        if first == last:
            return
        part = self if last - first == len(self.rows) else self.take(range(first, last))
        positions = zip(part.epochs, part.ranks, part.offsets, part.times, strict=True)
        steps, values = zip(*part.steps, strict=True), zip(*part.values, strict=True)
        for row, (epoch, rank, offset, time), own_steps, numbers in zip(
            part.rows, positions, steps, values, strict=True
        ):
            line = [
                measurement((name, value, unit, step, epoch, rank, offset, time, phase))
                for (name, unit, phase), step, value in zip(self.metrics, own_steps, numbers, strict=True)
            ]
            yield row, self, line


def by_rank(
    parts: Iterable[tuple[LineColumns, Sequence[Column]]], *, unknown: Rank = None
) -> Mapping[Rank, list[Column]]:
    """Columns of some groups of lines, as many of each: those of each rank, joined in file order.

    Ranks are in the order of their first lines; lines without one count as those of `unknown`.
    """
    pieces: defaultdict[Rank, list[list[Column]]] = defaultdict(list)
    for lines, columns in parts:
        for rank, indices in _indices_by_rank(lines.ranks).items():
            own = [lines.rows, *columns]
            part = own if len(indices) == len(lines.rows) else [each.take(indices) for each in own]
            pieces[unknown if rank is None else rank].append(part)
    joined = {rank: _in_order(every) for rank, every in pieces.items()}
    return {rank: columns for rank, (_, *columns) in sorted(joined.items(), key=lambda each: each[1][0][0])}


def _indices_by_rank(ranks: Column) -> Mapping[Rank, Sequence[int]]:
    """The indices of each rank."""
    if ranks.is_constant:
        return {ranks[0]: range(len(ranks))}
    indices: defaultdict[Rank, array[int]] = defaultdict(partial(array, "q"))
    for index, rank in enumerate(ranks):
        indices[rank].append(index)
    return indices


def _in_order(pieces: Sequence[Sequence[Column]]) -> Sequence[Column]:
    """Pieces of columns, joined by the first column, the rows."""
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
