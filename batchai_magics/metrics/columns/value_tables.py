"""Lines of known forms in columns: a line becomes records when somebody asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from batchai_magics.metrics.measurement import Measurement, measurement
from batchai_magics.metrics.reading.line_plan import MetricName
from batchai_magics.metrics.reading.readings import LineGroup

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

NO_COUNT = -1
"""The step or rank of a line that tells none."""


@dataclass(frozen=True)
class ValueTable:
    """The lines of one shape in file order, a row each; `values` has a column for each metric.

    `row` is the number of the line within its block. `step` and `rank` may be NO_COUNT, `epoch` and `time`
    NaN; an epoch with `is_whole` is printed as an integer.
    """

    metrics: tuple[MetricName, ...]
    row: Array
    step: Array
    epoch: Array
    is_whole: Array
    rank: Array
    offset: Array
    time: Array
    values: Array

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def of(cls, group: LineGroup) -> ValueTable:
        """The lines of one plan."""
        epochs = group.epochs
        return cls(
            tuple(group.metrics),
            np.array(group.rows, np.int64),
            np.array([NO_COUNT if step is None else step for step in group.steps], np.int64),
            np.array(epochs, np.float64),
            np.array([isinstance(epoch, int) for epoch in epochs], np.bool_),
            np.array([NO_COUNT if rank is None else rank for rank in group.ranks], np.int64),
            np.array(group.ends, np.int64),
            np.array(group.times, np.float64),
            np.array([np.asarray(column) for column in group.values], np.float64).T,
        )

    def lines(self) -> Iterator[tuple[int, list[Measurement]]]:
        """The number and the records of each line."""
        names = [(metric.name, metric.unit, metric.phase) for metric in self.metrics]
        columns = (
            self.row.tolist(),
            _or_none(self.step, self.step == NO_COUNT),
            self._epochs(),
            _or_none(self.rank, self.rank == NO_COUNT),
            self.offset.tolist(),
            _or_none(self.time, np.isnan(self.time)),
            self.values.tolist(),
        )
        for row, step, epoch, rank, offset, time, values in zip(*columns, strict=True):
            yield (
                row,
                [
                    measurement((name, value, unit, step, epoch, rank, offset, time, phase))
                    for (name, unit, phase), value in zip(names, values, strict=True)
                ],
            )

    def _epochs(self) -> list[float | None]:
        epochs = _or_none(self.epoch, np.isnan(self.epoch))
        if not self.is_whole.any():
            return epochs
        return [
            int(epoch) if is_whole and epoch is not None else epoch
            for epoch, is_whole in zip(epochs, self.is_whole.tolist(), strict=True)
        ]


def _or_none(column: Array, is_missing: Array) -> list[Any]:
    if not is_missing.any():
        values: list[Any] = column.tolist()
        return values
    if is_missing.all():
        return [None] * len(column)
    return [
        None if missing else value
        for value, missing in zip(column.tolist(), is_missing.tolist(), strict=True)
    ]


@dataclass(frozen=True)
class ValueRows:
    """Lines of several shapes that follow each other; no line between them has a record."""

    tables: Sequence[ValueTable]

    @property
    def line_count(self) -> int:
        """How many lines there are."""
        return sum(map(len, self.tables))

    def __len__(self) -> int:
        return sum(table.values.size for table in self.tables)

    def __iter__(self) -> Iterator[Measurement]:
        lines = [line for table in self.tables for line in table.lines()]
        if len(self.tables) > 1:
            lines.sort(key=itemgetter(0))
        return (record for _, records in lines for record in records)
