"""The measurements and facts of a log as columns: a record is made when somebody asks for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

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

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"

MISSING = np.iinfo(np.int64).min
"""The step or rank of a line that tells none."""

_MAX_PARTS = 32  # of a column, before they become one array
_WINDOW_ROWS = 8192  # of which records are made at once


class MeasurementTable(Collection[Record]):
    """The records of a log in file order; lines with the same metrics share columns."""

    def __init__(self) -> None:
        self._lines: dict[tuple[MetricName, ...], LineColumns] = {}
        self._facts: list[tuple[int, Fact]] = []  # each with its row
        self._row_count = self._size = 0

    @classmethod
    def of(cls, records: Iterable[Record]) -> MeasurementTable:
        """The table of some records."""
        table = cls()
        table.add_records(records)
        return table

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Record]:
        at = 0
        for begin in range(0, self._row_count, _WINDOW_ROWS):
            end = begin + _WINDOW_ROWS
            lines: list[tuple[int, Sequence[Record]]] = []
            while at < len(self._facts) and self._facts[at][0] < end:
                lines.append((self._facts[at][0], [self._facts[at][1]]))
                at += 1
            for columns in self._lines.values():
                lines += columns.lines(begin, end)
            lines.sort(key=itemgetter(0))
            for _, records in lines:
                yield from records

    def __contains__(self, record: object) -> bool:
        return any(record == each for each in self)

    @property
    def line_columns(self) -> Collection[LineColumns]:
        """The columns of all lines with measurements."""
        return self._lines.values()

    def add(self, readings: Readings) -> None:
        """Add what a block of lines gives."""
        if readings.single:
            self.add_records(readings.records())
        elif readings.groups:
            self._add_groups(readings.groups)
            self._row_count += 1 + max(group.rows[-1] for group in readings.groups)

    def add_records(self, records: Iterable[Record]) -> None:
        """Add single records."""
        groups: dict[tuple[MetricName, ...], LineGroup] = {}
        numbers: list[Measurement] = []
        row = 0
        for record in [*records, None]:
            if isinstance(record, Measurement):
                numbers.append(record)
                continue
            for line in lines_of(numbers):
                _add_line(groups, row, line)
                row += 1
            numbers.clear()
            if record is not None:
                self._facts.append((self._row_count + row, record))
                self._size += 1
                row += 1
        self._add_groups(groups.values())
        self._row_count += row

    def _add_groups(self, groups: Iterable[LineGroup]) -> None:
        for group in groups:
            columns = self._lines.get(group.metrics)
            if columns is None:
                columns = self._lines[group.metrics] = LineColumns(group.metrics)
            columns.add(group, self._row_count)
            self._size += len(group.rows) * len(group.metrics)


def _add_line(groups: dict[tuple[MetricName, ...], LineGroup], row: int, line: list[Measurement]) -> None:
    metrics = tuple([MetricName(number.name, number.unit, number.phase) for number in line])
    group = groups.get(metrics)
    if group is None:
        group = groups[metrics] = LineGroup(metrics)
    first = line[0]
    cast("list[int]", group.rows).append(row)
    group.steps.append(first.step)
    group.epochs.append(first.epoch)
    group.ranks.append(first.rank)
    group.ends.append(first.offset)
    group.times.append(first.wall_time)
    for column, number in zip(group.values, line, strict=True):
        cast("list[float]", column).append(number.value)


class _Column:
    """Values that come in parts; equal ones take no memory."""

    def __init__(self) -> None:
        self._parts: list[Array] = []

    def add(self, part: Array) -> None:
        self._parts.append(_compressed(part))
        if len(self._parts) > _MAX_PARTS:
            self._join()

    @property
    def array(self) -> Array:
        """All values; it must not be written to."""
        if len(self._parts) > 1:
            self._join()
        return self._parts[0]

    def _join(self) -> None:
        firsts = [part[:1] for part in self._parts]
        if all(part.strides == (0,) for part in self._parts) and _is_constant(np.concatenate(firsts)):
            self._parts = [np.broadcast_to(firsts[0], sum(map(len, self._parts)))]
        else:
            self._parts = [np.concatenate(self._parts)]


def _compressed(values: Array) -> Array:
    return np.broadcast_to(values[:1].copy(), len(values)) if _is_constant(values) else values


def _is_constant(values: Array) -> bool:
    """Whether there is one value only; -0.0 is another one than 0.0, though they are equal."""
    first = values[:1]
    if first.dtype.kind != "f":
        return bool((values == first).all())
    if np.isnan(first).all():
        return bool(np.isnan(values).all())
    return bool((values == first).all() and (np.signbit(values) == np.signbit(first)).all())


class LineColumns:
    """The lines with these metrics, a row each in file order: their positions, and a column for each metric.

    An epoch that `is_whole` was printed as an integer.
    """

    def __init__(self, metrics: tuple[MetricName, ...]) -> None:
        self.metrics = metrics
        self._row, self._step, self._epoch, self._is_whole = _Column(), _Column(), _Column(), _Column()
        self._rank, self._offset, self._time = _Column(), _Column(), _Column()
        self._values = [_Column() for _ in metrics]

    def add(self, group: LineGroup, first_row: int) -> None:
        """Add lines behind the others; `first_row` is that of their block."""
        self._row.add(np.array(group.rows, np.int64) + first_row)
        self._step.add(_array(group.steps, MISSING, np.int64))
        self._epoch.add(_array(group.epochs, np.nan, np.float64))
        self._is_whole.add(_are_whole(group.epochs))
        self._rank.add(_array(group.ranks, MISSING, np.int64))
        self._offset.add(np.array(group.ends, np.int64))
        self._time.add(_array(group.times, np.nan, np.float64))
        for column, values in zip(self._values, group.values, strict=True):
            column.add(np.asarray(values, np.float64))

    @property
    def rows(self) -> Array:
        """The number of each line among all of the table."""
        return self._row.array

    @property
    def is_benchmark(self) -> bool:
        """Whether they are step lines of tf_cnn_benchmarks."""
        return is_step_line(Measurement(name, 0.0, unit) for name, unit, _ in self.metrics)

    @property
    def positions(self) -> dict[str, Array]:
        """Step, rank and epoch; MISSING or NaN is what a line lacks."""
        return {"step": self._step.array, "rank": self._rank.array, "epoch": self._epoch.array}

    @property
    def values(self) -> dict[str, Array]:
        """The values by the name of their metric."""
        columns = zip(self.metrics, self._values, strict=True)
        return {metric.name: column.array for metric, column in columns}

    def lines(self, begin: int, end: int) -> Iterator[tuple[int, list[Measurement]]]:
        """The rows of a range, each with its measurements."""
        first, last = np.searchsorted(self._row.array, (begin, end))
        if first == last:
            return
        part = slice(first, last)
        times, epochs = self._time.array[part], self._epochs(part)
        positions = (
            self._row.array[part].tolist(),
            _or_none(self._step.array[part], self._step.array[part] == MISSING),
            epochs,
            _or_none(self._rank.array[part], self._rank.array[part] == MISSING),
            self._offset.array[part].tolist(),
            _or_none(times, np.isnan(times)),
        )
        values = zip(*(column.array[part].tolist() for column in self._values), strict=True)
        for (row, step, epoch, rank, offset, time), numbers in zip(
            zip(*positions, strict=True), values, strict=True
        ):
            yield (
                row,
                [
                    measurement((name, value, unit, step, epoch, rank, offset, time, phase))
                    for (name, unit, phase), value in zip(self.metrics, numbers, strict=True)
                ],
            )

    def _epochs(self, part: slice) -> list[float | None]:
        column = self._epoch.array[part]
        epochs = _or_none(column, np.isnan(column))
        is_whole = self._is_whole.array[part]
        if not is_whole.any():
            return epochs
        pairs = zip(epochs, is_whole.tolist(), strict=True)
        return [int(epoch) if whole and epoch is not None else epoch for epoch, whole in pairs]


def _array(values: Sequence[float | None], missing: float, kind: type[np.generic]) -> Array:
    """The values, with `missing` in place of None."""
    unknown = values.count(None)
    if unknown == len(values):
        return np.broadcast_to(np.array([missing], kind), unknown)
    return np.array([missing if value is None else value for value in values] if unknown else values, kind)


def _are_whole(epochs: Sequence[float | None]) -> Array:
    types = {*map(type, epochs)}
    if len(types) == 1:
        return np.broadcast_to(np.array([int in types]), len(epochs))
    return np.array([isinstance(epoch, int) for epoch in epochs], np.bool_)


def _or_none(column: Array, is_missing: Array) -> list[Any]:
    values: list[Any] = column.tolist()
    if not is_missing.any():
        return values
    return [None if missing else value for value, missing in zip(values, is_missing.tolist(), strict=True)]
