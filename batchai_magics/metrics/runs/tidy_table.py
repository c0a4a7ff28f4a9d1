"""Records as a tidy table with one row per number, and as additional series for charts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from batchai_magics.metrics.measurement import (
    RATE_UNIT,
    TOTAL,
    Measurement,
    Record,
)
from batchai_magics.metrics.runs.timeline import on_timeline

if TYPE_CHECKING:
    import pandas


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
    import pandas as pd

    rows = list(numbers(on_timeline(records)))
    times = pd.Series([number.wall_time for number in rows], dtype="float64")
    return pd.DataFrame(
        {
            "step": pd.array([number.step for number in rows], dtype="Int64"),
            "rank": pd.array([number.rank for number in rows], dtype="Int64"),
            "metric": pd.Series([number.name for number in rows], dtype="object"),
            "value": pd.array([number.value for number in rows], dtype="float64"),
            "unit": pd.Series([number.unit for number in rows], dtype="object"),
            "wall_time": pd.to_datetime(times.mul(1e6).round(), unit="us", utc=True),
            "offset": pd.array([number.offset for number in rows], dtype="int64"),
        }
    )
