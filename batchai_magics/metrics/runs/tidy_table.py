"""Records as a tidy table with one row per number, and as additional series for charts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from batchai_magics.metrics.measurement import (
    EvalRecord,
    Measurement,
    Record,
    StepRecord,
    TotalRecord,
)
from batchai_magics.metrics.runs.timeline import on_timeline

if TYPE_CHECKING:
    import pandas


TIDY_COLUMNS = ("step", "rank", "metric", "value", "unit", "wall_time", "offset")
"""The columns of the table, in order."""

_RATE = "images/sec"
_FRACTION = "fraction"

# The numbers of a record type: metric, field of the record, unit.
_NUMBERS: dict[type, tuple[tuple[str, str, str], ...]] = {
    StepRecord: (
        ("images_per_sec", "images_per_sec", _RATE),
        ("uncertainty", "uncertainty", _RATE),
        ("jitter", "jitter", _RATE),
        ("loss", "loss", ""),
        ("top_1", "top_1", _FRACTION),
        ("top_5", "top_5", _FRACTION),
    ),
    TotalRecord: (("total_images_per_sec", "images_per_sec", _RATE),),
    EvalRecord: (
        ("eval_examples_per_sec", "examples_per_sec", "examples/sec"),
        ("eval_top_1", "top_1", _FRACTION),
        ("eval_top_5", "top_5", _FRACTION),
        ("eval_examples", "examples", "examples"),
    ),
}


@dataclass(frozen=True, slots=True)
class Number:
    """One number of a log. `wall_time` is in seconds since the epoch, None if unknown."""

    step: int | None
    rank: int | None
    metric: str
    value: float
    unit: str
    wall_time: float | None
    offset: int

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in table order; the time in ISO 8601."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in TIDY_COLUMNS}
        if self.wall_time is not None:
            time = datetime.fromtimestamp(self.wall_time, timezone.utc)
            fields["wall_time"] = time.isoformat(timespec="milliseconds")
        return fields


def numbers(records: Iterable[Record]) -> Iterator[Number]:
    """Yield every number in the records, in file order."""
    for record in records:
        if isinstance(record, Measurement):
            yield _number(record, record.name, record.value, record.unit)
        for metric, field, unit in _NUMBERS.get(type(record), ()):
            value = getattr(record, field)
            if value is not None:
                yield _number(record, metric, value, unit)


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
            "metric": pd.Series([number.metric for number in rows], dtype="object"),
            "value": pd.array([number.value for number in rows], dtype="float64"),
            "unit": pd.Series([number.unit for number in rows], dtype="object"),
            "wall_time": pd.to_datetime(times.mul(1e6).round(), unit="us", utc=True),
            "offset": pd.array([number.offset for number in rows], dtype="int64"),
        }
    )


def _number(record: Record, metric: str, value: float, unit: str) -> Number:
    step, wall_time = getattr(record, "step", None), getattr(record, "wall_time", None)
    return Number(step, record.rank, metric, float(value), unit, wall_time, record.offset)
