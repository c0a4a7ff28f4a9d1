"""Records as a tidy table with one row per number, and as additional series for charts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
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
)
from batchai_magics.metrics.measurement_table import LineColumns, MeasurementTable
from batchai_magics.metrics.runs.timeline import on_timeline

if TYPE_CHECKING:
    import pandas
    from numpy.typing import NDArray


TIDY_COLUMNS = ("step", "rank", "metric", "value", "unit", "wall_time", "offset")
"""The columns of the table, in order."""


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
        (lines, place) for lines in (*table.lines, _totals(table)) for place in range(len(lines.metrics))
    ]
    counts = [len(lines.rows) for lines, _ in parts]
    rows = np.fromiter(chain.from_iterable(lines.rows for lines, _ in parts), np.int64)
    order = np.lexsort((np.repeat([place for _, place in parts], counts), rows))

    def joined(columns: Iterable[Column], missing: float, kind: type[Any]) -> NDArray[Any]:
        filled = (np.asarray(column.fillna(missing), kind) for column in columns)
        return np.concatenate([*map(np.broadcast_to, filled, counts)])[order]

    def texts(place: int) -> NDArray[Any]:
        found = np.array([lines.metrics[number][place] for lines, number in parts], object)
        return np.repeat(found, counts)[order]

    steps = joined((lines.steps[place] for lines, place in parts), MISSING, np.int64)
    ranks = joined((lines.ranks for lines, _ in parts), MISSING, np.int64)
    times = pd.Series(joined((lines.times for lines, _ in parts), math.nan, np.float64))
    return pd.DataFrame(
        {
            "step": pd.arrays.IntegerArray(steps, steps == MISSING),
            "rank": pd.arrays.IntegerArray(ranks, ranks == MISSING),
            "metric": pd.Series(texts(0), dtype="object"),
            "value": joined((lines.values[place] for lines, place in parts), math.nan, np.float64),
            "unit": pd.Series(texts(1), dtype="object"),
            "wall_time": pd.to_datetime(times.mul(1e6).round(), unit="us", utc=True),
            "offset": joined((lines.offsets for lines, _ in parts), 0, np.int64),
        }
    )


def _totals(table: MeasurementTable) -> LineColumns:
    """The totals of runs as lines with a number."""
    rows = [row for row, fact in table.facts if fact.key == TOTAL]
    facts = [fact for _, fact in table.facts if fact.key == TOTAL]
    nothing = Column([None] * len(rows))
    return LineColumns(
        (MetricName(TOTAL, RATE_UNIT, TRAIN),),
        rows=Column(rows),
        steps=[nothing],
        values=[Column([float(fact.value) for fact in facts])],
        epochs=nothing,
        ranks=Column([fact.rank for fact in facts]),
        offsets=Column([fact.offset for fact in facts]),
        times=Column([fact.wall_time for fact in facts]),
    )
