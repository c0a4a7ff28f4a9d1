"""The numbers of a log as tables: a row per line with numbers, or, tidy, a row per number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import chain
from typing import TYPE_CHECKING, Any

from batchai_magics.metrics.column import MISSING, Column
from batchai_magics.metrics.grammar.metric_names import TRAIN
from batchai_magics.metrics.measurement import (
    RATE_UNIT,
    TOTAL,
    Measurement,
    MetricName,
    Record,
    lines_of,
)
from batchai_magics.metrics.measurement_table import LineColumns, MeasurementTable
from batchai_magics.metrics.runs.log_runs import on_timeline
from batchai_magics.metrics.runs.mean_rates import MEAN_RATES
from batchai_magics.metrics.runs.metric_traits import traits_of

if TYPE_CHECKING:
    import pandas
    from numpy.typing import NDArray


POSITIONS = ("step", "rank", "epoch")
"""The columns in front of the numbers of a line."""

TIDY_COLUMNS = ("step", "rank", "metric", "value", "unit", "wall_time", "offset")
"""The columns of the tidy table, in order."""

_COUNTS = ("step", "rank")
_MANY_CELLS = 1 << 24  # of a table whose columns are sparse if few of them have a value
_SPARSE_SHARE = 8


def line_rows(records: Iterable[Record]) -> Iterator[dict[str, float | None]]:
    """The numbers of each line by name, behind its POSITIONS, in file order."""
    for line in lines_of(records):
        position = {name: getattr(line[0], name) for name in POSITIONS}
        yield {**position, **{number.name: number.value for number in line}}


def frame(records: Iterable[Record]) -> pandas.DataFrame:
    """The lines with numbers as a table.

    Args:
        records: Records, in file order.

    Returns:
        One row per line with numbers: those of POSITIONS that any line has, nullable integers if they are
        whole, and a column for each number; NaN stands for one that the line lacks. Of many lines with other
        numbers each, these columns are sparse.
    """
    import pandas as pd

    parts = [*MeasurementTable.of(records).lines]
    line_count = sum(len(part.rows) for part in parts)
    filled_count = sum(len(part.names) * len(part.rows) for part in parts)
    pieces = _pieces_by_name(parts)
    is_sparse = line_count * len(pieces) > max(_MANY_CELLS, _SPARSE_SHARE * filled_count)
    table: dict[str, Any] = {}
    for name, values in pieces.items():
        has_gaps = is_sparse and values and name not in POSITIONS
        table[name] = _sparse(values, line_count) if has_gaps else _dense(name, values, line_count)
    return pd.DataFrame({name: column for name, column in table.items() if column is not None}, copy=False)


_Pieces = Sequence[
    tuple["NDArray[Any]", Any]
]  # of a column: the numbers of lines in file order, and their values


def _pieces_by_name(parts: Sequence[LineColumns]) -> Mapping[str, _Pieces]:
    """The known values of each column of these lines, positions first."""
    import numpy as np

    rows = np.fromiter(chain.from_iterable(part.rows for part in parts), np.int64)
    line_numbers = np.empty(len(rows), np.int64)
    line_numbers[np.argsort(rows, kind="stable")] = np.arange(len(rows))
    in_order = sorted(parts, key=lambda part: part.rows[0])
    names = dict.fromkeys([*POSITIONS, *(name for part in in_order for name in part.names)])
    pieces: dict[str, list[tuple[NDArray[Any], Any]]] = {name: [] for name in names}
    begin = 0
    for part in parts:
        columns = {"step": part.steps[0], "rank": part.ranks, "epoch": part.epochs}
        columns |= dict(zip(part.names, part.values, strict=True))
        end = begin + len(part.rows)
        for name, column in columns.items():
            if not column.is_missing:
                missing = MISSING if name in _COUNTS else math.nan
                pieces[name].append((line_numbers[begin:end], column.fillna(missing)))
        begin = end
    return pieces


def _dense(name: str, pieces: _Pieces, size: int) -> Any:
    """A column with values on some lines; None if there are lines, but none has a value."""
    import numpy as np
    import pandas as pd

    values = np.full(size, MISSING if name in _COUNTS else math.nan)
    for line_numbers, numbers in pieces:
        values[line_numbers] = numbers
    is_missing = values == MISSING if name in _COUNTS else np.isnan(values)
    if size and is_missing.all():
        return None
    if name == "epoch" and (values[~is_missing] % 1 == 0).all():
        values = np.where(is_missing, 0, values).astype(np.int64)
    return pd.arrays.IntegerArray(values, is_missing) if values.dtype == np.int64 else values


def _sparse(pieces: _Pieces, size: int) -> Any:
    """A column with values on some lines; the others take no memory."""
    import numpy as np
    import pandas as pd

    line_numbers = np.concatenate([at for at, _ in pieces])
    values = np.concatenate([np.broadcast_to(numbers, len(at)) for at, numbers in pieces]).astype(float)
    order = np.argsort(line_numbers)
    sparse: Any = pd.arrays.SparseArray
    if hasattr(sparse, "from_indices"):
        return sparse.from_indices(values[order], line_numbers[order].astype(np.int32), size)
    index_type = type(sparse([math.nan]).sp_index)  # before pandas 3.1
    return sparse(values[order], sparse_index=index_type(size, line_numbers[order].astype(np.int32)))


def numbers(records: Iterable[Record]) -> Iterator[Measurement]:
    """Yield every number in the records, in file order; a run's total is one too."""
    for record in records:
        if isinstance(record, Measurement):
            yield record
        elif record.key == TOTAL:
            line = (record.rank, record.offset, record.wall_time)
            yield Measurement(TOTAL, float(record.value), RATE_UNIT, None, None, *line)


def tidy_row(number: Measurement) -> dict[str, Any]:
    """The row of a number, with TIDY_COLUMNS in order; the time in ISO 8601."""
    seconds = number.wall_time
    time = None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)
    return {
        "step": number.step,
        "rank": number.rank,
        "metric": number.name,
        "value": float(number.value),
        "unit": number.unit,
        "wall_time": time and time.isoformat(timespec="milliseconds"),
        "offset": number.offset,
    }


def tidy(records: Iterable[Record]) -> pandas.DataFrame:
    """One row per number, in file order, with TIDY_COLUMNS.

    `step`, counted over the whole run, and `rank` are nullable integers; `offset` is the byte offset after
    the line. `wall_time` is the UTC time of the line, or NaT: from its own timestamp, else as recorded by
    the backend (to 0.1 s). A timestamp without a zone is taken as UTC, and only used if the backend recorded
    no time. Totals, which every rank prints, are separate rows and must not be summed.
    """
    import numpy as np
    import pandas as pd

    table = on_timeline(records)
    parts = [
        (lines, index) for lines in (*table.lines, _totals(table)) for index in range(len(lines.metrics))
    ]
    counts = [len(lines.rows) for lines, _ in parts]
    rows = np.fromiter(chain.from_iterable(lines.rows for lines, _ in parts), np.int64)
    order = np.lexsort((np.repeat([index for _, index in parts], counts), rows))

    def joined(columns: Iterable[Column], missing: float, kind: type[Any]) -> NDArray[Any]:
        filled = (np.asarray(column.fillna(missing), kind) for column in columns)
        return np.concatenate([*map(np.broadcast_to, filled, counts)])[order]

    def texts(field: int) -> NDArray[Any]:
        values = np.array([lines.metrics[number][field] for lines, number in parts], object)
        return np.repeat(values, counts)[order]

    steps = joined((lines.steps[index] for lines, index in parts), MISSING, np.int64)
    ranks = joined((lines.ranks for lines, _ in parts), MISSING, np.int64)
    times = pd.Series(joined((lines.times for lines, _ in parts), math.nan, np.float64))
    return pd.DataFrame(
        {
            "step": pd.arrays.IntegerArray(steps, steps == MISSING),
            "rank": pd.arrays.IntegerArray(ranks, ranks == MISSING),
            "metric": pd.Series(texts(0), dtype="object"),
            "value": joined((lines.values[index] for lines, index in parts), math.nan, np.float64),
            "unit": pd.Series(texts(1), dtype="object"),
            "wall_time": pd.to_datetime(times.mul(1e6).round(), unit="us", utc=True),
            "offset": joined((lines.offsets for lines, _ in parts), 0, np.int64),
        }
    )


def _totals(table: MeasurementTable) -> LineColumns:
    """The totals of runs as lines with a number."""
    metrics = (MetricName(TOTAL, RATE_UNIT, TRAIN),)
    lines = [(row, [*numbers([fact])]) for row, fact in table.facts if fact.key == TOTAL]
    return LineColumns.of(metrics, lines) if lines else LineColumns(metrics)


def records_of_frame(frame: pandas.DataFrame) -> list[Record]:
    """The records of a table, as `frame` or `tidy` makes it."""
    names = set(frame.columns)
    is_tidy, has_mean_rates = {"metric", "value"} <= names, names.issuperset(MEAN_RATES)
    units = dict.fromkeys(MEAN_RATES if has_mean_rates else (), RATE_UNIT)
    named = frame.rename(columns=str)
    rows: list[dict[Any, Any]] = named.astype(object).where(named.notna(), None).to_dict("records")
    if is_tidy:
        values = (math.nan if row["value"] is None else row["value"] for row in rows)
        return [_value(row, row["metric"], value) for row, value in zip(rows, values, strict=True)]
    return [
        _value({"unit": units.get(name), "offset": number, **row}, name, cell)
        for number, row in enumerate(rows)
        for name, cell in row.items()
        if name not in POSITIONS and cell is not None
    ]


def _value(row: Mapping[str, Any], name: str, value: float) -> Measurement:
    time = row.get("wall_time")
    return Measurement(
        name,
        value,
        row.get("unit") or "",
        row.get("step"),
        row.get("epoch"),
        row.get("rank"),
        row.get("offset") or 0,
        wall_time=time.timestamp() if time is not None else None,
        phase=traits_of(name).phase,
    )
