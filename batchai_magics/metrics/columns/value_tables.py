"""Lines of known forms in columns: a line becomes records when somebody asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from batchai_magics.metrics.formats.line_plan import Role
from batchai_magics.metrics.grammar.line_shapes import MetricName
from batchai_magics.metrics.measurement import Measurement, measurement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

NO_COUNT = -1
"""The step or rank of a line that tells none."""


@dataclass(frozen=True)
class ValueTable:
    """The lines of one shape in file order, a row each; `values` has a column for each metric.

    `row` is the number of the line within its block. `step` and `rank` may be NO_COUNT, `epoch` and `time`
    NaN; an epoch with `is_whole` is printed as an integer, a time with `is_exact` with its zone.
    """

    metrics: tuple[MetricName, ...]
    role: Role
    row: Array
    step: Array
    epoch: Array
    is_whole: Array
    rank: Array
    offset: Array
    time: Array
    is_exact: Array
    values: Array

    def __len__(self) -> int:
        return len(self.row)

    def at_offsets(self, offsets: Array) -> ValueTable:
        """The same lines, ending at these offsets."""
        return replace(self, offset=offsets)

    def take(self, rows: slice | Array) -> ValueTable:
        """Some lines of the table."""
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return replace(self, **columns)

    @classmethod
    def joined(cls, parts: Sequence[ValueTable]) -> ValueTable:
        """The lines of some tables of one shape, in file order."""
        if len(parts) == 1:
            return parts[0]
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS
        }
        whole = cls(metrics=parts[0].metrics, role=parts[0].role, **columns)
        return whole.take(np.argsort(whole.row, kind="stable"))

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


_COLUMNS = ("row", "step", "epoch", "is_whole", "rank", "offset", "time", "is_exact", "values")


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


def rows_between(tables: Sequence[ValueTable], first: int, last: int) -> ValueRows:
    """The lines of some tables among the rows of their block."""
    found = []
    for table in tables:
        begin, end = np.searchsorted(table.row, (first, last)).tolist()
        if begin < end:
            found.append(table.take(slice(begin, end)))
    return ValueRows(found)


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
