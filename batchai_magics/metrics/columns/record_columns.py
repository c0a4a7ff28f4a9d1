"""The records of a whole log as arrays: a record becomes an object when somebody asks for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from batchai_magics.metrics.columns.value_tables import ValueRows, ValueTable
from batchai_magics.metrics.grammar.line_reading import Kind
from batchai_magics.metrics.measurement import Measurement, Record, StepRecord, step_record
from batchai_magics.metrics.reading.readings import LineGroup, Readings

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pandas import DataFrame

Array: TypeAlias = "NDArray[Any]"

NO_RANK = -1


@dataclass(frozen=True)
class StepColumns:
    """Step records, a row each, in file order; `rank` is NO_RANK where the log does not tell it.

    Accuracies hold where `has_accuracy`, and are NaN elsewhere, as is `wall_time` where nothing tells it.
    """

    step: Array
    rank: Array
    images_per_sec: Array
    uncertainty: Array
    jitter: Array
    loss: Array
    top_1: Array
    top_5: Array
    has_accuracy: Array
    offset: Array
    wall_time: Array

    def __len__(self) -> int:
        return len(self.step)

    def arrays(self) -> Mapping[str, Array]:
        """The columns by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def rank_slots(self) -> Array:
        """The rank of each row; where it is not told, how often the step came before among such rows."""
        slots = self.rank.copy()
        unknown = np.flatnonzero(self.rank == NO_RANK)
        order = unknown[np.argsort(self.step[unknown], kind="stable")]
        ordered = self.step[order]
        is_first = np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(order)]
        places = np.arange(len(order))
        slots[order] = places - np.maximum.accumulate(np.where(is_first, places, 0))
        return slots

    def take(self, rows: Array | slice) -> StepColumns:
        """Some rows, in the order asked for."""
        return StepColumns(**{name: column[rows] for name, column in self.arrays().items()})

    def records(self) -> Iterator[StepRecord]:
        """The rows as records."""
        ranks = [None if rank == NO_RANK else rank for rank in self.rank.tolist()]
        numbers = (self.images_per_sec, self.uncertainty, self.jitter, self.loss)
        top_1, top_5 = (_or_none(column, self.has_accuracy) for column in (self.top_1, self.top_5))
        lists = (column.tolist() for column in numbers)
        times = _or_none(self.wall_time, ~np.isnan(self.wall_time))
        rows = zip(self.step.tolist(), ranks, *lists, top_1, top_5, self.offset.tolist(), times, strict=True)
        return map(step_record, rows)

    @classmethod
    def of(cls, records: Sequence[StepRecord]) -> StepColumns:
        """The columns of some records."""
        columns = zip(*records, strict=True) if records else repeat(())
        values = dict(zip(StepRecord._fields, columns, strict=False))
        return cls(
            step=np.array(values["step"], np.int64),
            rank=np.array([NO_RANK if rank is None else rank for rank in values["rank"]], np.int32),
            **{name: np.array(values[name], np.float64) for name in _FLOATS},
            has_accuracy=np.array([accuracy is not None for accuracy in values["top_1"]], np.bool_),
            offset=np.array(values["offset"], np.int64),
            wall_time=np.array(values["wall_time"], np.float64),
        )


class StepStore:
    """Step records that come in parts: each column is there once, and those of one value take no memory."""

    def __init__(self) -> None:
        self._columns = {field.name: _GrowingColumn() for field in fields(StepColumns)}

    def add(self, steps: StepColumns) -> None:
        """Keep some rows behind the others."""
        for name, column in steps.arrays().items():
            self._columns[name].add(column)

    def columns(self) -> StepColumns:
        """All rows; columns of one value must not be written to. The store has none of them any more."""
        columns, self._columns = self._columns, {name: _GrowingColumn() for name in self._columns}
        empty = StepColumns.of([]).arrays()
        return StepColumns(**{name: column.taken(empty[name]) for name, column in columns.items()})


class _GrowingColumn:
    """One value, until another one comes; then an array, which grows where it is."""

    def __init__(self) -> None:
        self._size = 0
        self._values: Array | None = None
        self._is_one = True

    def add(self, column: Array) -> None:
        if not len(column):
            return
        begin, self._size = self._size, self._size + len(column)
        if self._values is None:
            self._values = column[:1].copy()
        if self._is_one and _has_only(column, self._values):
            return
        if self._is_one:
            self._is_one, first = False, self._values
            self._values = np.full(self._size, first[0])
        elif len(self._values) < self._size:
            self._values.resize(self._size + self._size // 4, refcheck=False)
        self._values[begin : self._size] = column

    def taken(self, empty: Array) -> Array:
        """The column; `empty` if nothing was added."""
        if self._values is None:
            return empty
        if self._is_one:
            return np.broadcast_to(self._values[:1], (self._size,))
        self._values.resize(self._size, refcheck=False)
        return self._values


def _has_only(column: Array, value: Array) -> bool:
    """Whether the column repeats one value; -0.0 is another value than 0.0, though they are equal."""
    if np.isnan(value).any():
        return bool(np.isnan(column).all())
    is_equal = bool((column == value).all())
    return is_equal and bool(value.any() or (np.signbit(column) == np.signbit(value)).all())


_FLOATS = ("images_per_sec", "uncertainty", "jitter", "loss", "top_1", "top_5")


@dataclass(frozen=True, eq=False)
class Columns(Collection[Record]):
    """All records of a log: its steps, and each other record with the number of steps before it.

    Many lines of other programs may stand together, as rows. One asks it for records as one asks a tuple of
    them.
    """

    steps: StepColumns
    parts: Sequence[tuple[int, Record | ValueRows]]

    @property
    def other_records(self) -> Iterator[tuple[int, Record]]:
        """Each record that is no step, and the number of steps before it."""
        for place, part in self.parts:
            if isinstance(part, ValueRows):
                yield from ((place, record) for record in part)
            else:
                yield place, part

    @property
    def has_values(self) -> bool:
        """Whether there are numbers of other programs."""
        return any(isinstance(part, (ValueRows, Measurement)) for _, part in self.parts)

    def __len__(self) -> int:
        sizes = (len(part) if isinstance(part, ValueRows) else 1 for _, part in self.parts)
        return len(self.steps) + sum(sizes)

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    def __contains__(self, record: object) -> bool:
        return any(record == each for each in self.records())

    @classmethod
    def of(cls, records: Iterable[Record]) -> Columns:
        """The columns of some records."""
        steps: list[StepRecord] = []
        others: list[tuple[int, Record]] = []
        for record in records:
            if isinstance(record, StepRecord):
                steps.append(record)
            else:
                others.append((len(steps), record))
        return cls(StepColumns.of(steps), others)

    def records(self) -> Iterator[Record]:
        """All records in file order."""
        steps = self.steps.records()
        done = 0
        for place, record in self.other_records:
            yield from islice(steps, place - done)
            done = place
            yield record
        yield from steps

    def frame(self) -> DataFrame:
        """The table of `series.frame`, made without the records, nor any column twice."""
        import pandas as pd

        steps = self.steps
        table: dict[str, Any] = {"step": steps.step.copy()}
        is_unknown = steps.rank == NO_RANK
        if not len(steps) or not is_unknown.all():
            table["rank"] = pd.arrays.IntegerArray(steps.rank.astype(np.int64), is_unknown)
        floats = {name: getattr(steps, name) for name in _FLOATS}
        table |= {
            name: column.copy()
            for name, column in floats.items()
            if not len(steps) or not np.isnan(column).all()
        }
        return pd.DataFrame(table, copy=False)


class ColumnsBuilder:
    """Collects what is read of a log, block by block."""

    def __init__(self) -> None:
        self._store, self._count = StepStore(), 0
        self._others: list[tuple[int, Record | ValueRows]] = []

    def add(self, readings: Readings) -> None:
        """Add the records of a block."""
        groups, is_mixed = readings.groups, bool(readings.single)
        if len(groups) == 1 and not is_mixed and groups[0].kind is Kind.BENCHMARK:
            self._add_steps(groups[0])
        elif groups and not is_mixed and all(group.kind is not Kind.BENCHMARK for group in groups):
            self._others.append((self._count, ValueRows([*map(ValueTable.of, groups)])))
        else:
            self.add_records(readings.records())

    def _add_steps(self, group: LineGroup) -> None:
        size, has_accuracy = len(group.rows), len(group.values) > 4
        numbers = [np.array(column, np.float64) for column in group.values]
        accuracies = numbers[4:] or [np.full(size, np.nan)] * 2
        self._count += size
        self._store.add(
            StepColumns(
                np.array(group.steps, np.int64),
                np.array([NO_RANK if rank is None else rank for rank in group.ranks], np.int32),
                numbers[0],
                numbers[1],
                numbers[2],
                numbers[3],
                accuracies[0],
                accuracies[1],
                np.full(size, has_accuracy),
                np.array(group.ends, np.int64),
                np.array(group.times, np.float64),
            )
        )

    def add_records(self, records: Iterable[Record]) -> None:
        """Add single records."""
        part = Columns.of(records)
        self._others += [(self._count + place, record) for place, record in part.parts]
        self._count += len(part.steps)
        self._store.add(part.steps)

    def columns(self) -> Columns:
        """All records."""
        return Columns(self._store.columns(), self._others)


def _or_none(column: Array, is_there: Array) -> Iterable[float | None]:
    if not is_there.any():
        return [None] * len(column)
    return [
        value if is_told else None for value, is_told in zip(column.tolist(), is_there.tolist(), strict=True)
    ]
