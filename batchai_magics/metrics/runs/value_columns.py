"""The table of other programs' numbers, made from columns without a record for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from batchai_magics.metrics.measurement import Record
from batchai_magics.metrics.runs.other_programs import value_rows

if TYPE_CHECKING:
    import pandas
    from numpy.typing import NDArray

    from batchai_magics.metrics.columns.record_columns import Columns
    from batchai_magics.metrics.columns.value_tables import ValueRows

    Array = NDArray[Any]

_COUNTS = ("step", "rank", "epoch")
_Part = Mapping[str, "Array"]


def value_frame(columns: Columns, names: Sequence[str]) -> pandas.DataFrame:
    """One row per line with numbers: the given columns, `epoch`, and one for each other number."""
    import numpy as np
    import pandas as pd

    parts = [*_parts(columns.parts)]
    lengths = [len(part["step"]) for part in parts]
    ends = np.cumsum([0, *lengths]).tolist()
    table: dict[str, Any] = {}
    for name in dict.fromkeys([*names, *_COUNTS, *(name for part in parts for name in part)]):
        column = np.full(ends[-1], np.nan)
        for part, begin, end in zip(parts, ends, ends[1:], strict=False):
            if name in part:
                column[begin:end] = part[name]
        table[name] = column
    is_whole = bool((np.nan_to_num(table["epoch"]) % 1 == 0).all())
    for name in _COUNTS if is_whole else _COUNTS[:2]:
        is_missing = np.isnan(table[name])
        table[name] = pd.arrays.IntegerArray(
            np.where(is_missing, 0, table[name]).astype(np.int64), is_missing
        )
    return pd.DataFrame(table, copy=False)


def _parts(parts: Iterable[tuple[int, Record | ValueRows]]) -> Iterator[_Part]:
    """The columns of stretches of lines."""
    from batchai_magics.metrics.columns.value_tables import ValueRows

    for is_rows, group in groupby((part for _, part in parts), key=lambda part: isinstance(part, ValueRows)):
        if is_rows:
            yield from (_columns_of(rows) for rows in group if isinstance(rows, ValueRows))
        else:
            yield _columns_of_rows(
                value_rows(record for record in group if not isinstance(record, ValueRows))
            )


def _columns_of(rows: ValueRows) -> _Part:
    import numpy as np

    order = np.argsort(np.concatenate([table.row for table in rows.tables]), kind="stable")
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    part: dict[str, Array] = {name: np.full(len(order), np.nan) for name in _COUNTS}
    begin = 0
    for table in sorted(rows.tables, key=lambda table: int(table.row[0])):
        part |= {
            metric.name: np.full(len(order), np.nan) for metric in table.metrics if metric.name not in part
        }
    for table in rows.tables:
        own, begin = places[begin : begin + len(table)], begin + len(table)
        for name in ("step", "rank"):
            counts = getattr(table, name)
            part[name][own] = np.where(counts < 0, np.nan, counts)
        part["epoch"][own] = table.epoch
        for column, metric in enumerate(table.metrics):
            part[metric.name][own] = table.values[:, column]
    return part


def _columns_of_rows(rows: Sequence[Mapping[str, float | None]]) -> _Part:
    import numpy as np

    names = dict.fromkeys([*_COUNTS, *(name for row in rows for name in row)])
    return {name: np.array([row.get(name) for row in rows], np.float64) for name in names}
