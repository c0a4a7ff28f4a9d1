"""Records number by number: a tidy table of them, and those that are charts of their own."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from batchai_magics.metrics.record import (
    EvalRecord,
    PatternRecord,
    Record,
    StepRecord,
    TotalRecord,
    ValueRecord,
)
from batchai_magics.metrics.runs.other_programs import STANDARD

if TYPE_CHECKING:
    import pandas

TIDY_COLUMNS = ("step", "rank", "metric", "value", "unit", "wall_time", "offset")
"""What is told of each number, in the order of the table."""

_RATE = "images/sec"
_FRACTION = "fraction"

MOST_SERIES = 4

Points = Sequence[tuple[int, float]]

# The numbers of a record: the metric, the record's field, the unit.
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
    """One number of a log. `wall_time` is in seconds since 1970, None where the log does not tell."""

    step: int | None
    rank: int | None
    metric: str
    value: float
    unit: str
    wall_time: float | None
    offset: int

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in the order of the table; the time as ISO 8601 has it."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in TIDY_COLUMNS}
        if self.wall_time is not None:
            time = datetime.fromtimestamp(self.wall_time, timezone.utc)
            fields["wall_time"] = time.isoformat(timespec="milliseconds")
        return fields


def numbers(records: Iterable[Record]) -> Iterator[Number]:
    """Every number in these records, in file order; names and words of the header are none."""
    for record in records:
        if isinstance(record, (PatternRecord, ValueRecord)):
            yield _number(record, record.name, record.value, getattr(record, "unit", ""))
        for metric, field, unit in _NUMBERS.get(type(record), ()):
            value = getattr(record, field)
            if value is not None:
                yield _number(record, metric, value, unit)


def tidy(records: Iterable[Record]) -> pandas.DataFrame:
    """One row a number, in file order, columns as TIDY_COLUMNS.

    `step` and `rank` are nullable integers, `offset` is the byte after the number's line. `wall_time` is when
    the line was printed, as a UTC time, or NaT: by the stamp that the program or a collector put on the line,
    else as the backend noted (to a tenth of a second). A stamp without a zone is taken as UTC, where the
    backend noted nothing; one without a year tells nothing. A total that every rank repeats is a row each
    time: take one, never their sum.
    """
    import pandas as pd

    rows = list(numbers(records))
    times = [number.wall_time for number in rows]
    return pd.DataFrame(
        {
            "step": pd.array([number.step for number in rows], dtype="Int64"),
            "rank": pd.array([number.rank for number in rows], dtype="Int64"),
            "metric": pd.Series([number.metric for number in rows], dtype="object"),
            "value": pd.array([number.value for number in rows], dtype="float64"),
            "unit": pd.Series([number.unit for number in rows], dtype="object"),
            "wall_time": pd.to_datetime(pd.Series(times, dtype="float64"), unit="s", utc=True),
            "offset": pd.array([number.offset for number in rows], dtype="int64"),
        }
    )


def _number(record: Record, metric: str, value: float, unit: str) -> Number:
    step, wall_time = getattr(record, "step", None), getattr(record, "wall_time", None)
    return Number(step, record.rank, metric, float(value), unit, wall_time, record.offset)


def other_series(records: Iterable[Record], *, is_all: bool) -> dict[str, Mapping[int | None, Points]]:
    """Up to four numbers by name, each as (step, value) by rank: what a pattern of the user's has found.

    With `is_all`, whatever the log tells more than once counts, the names with most values first. A number
    whose step the log does not tell has its place in the series of its rank; one that is not finite is left
    out.
    """
    run = list(records)
    drawn = frozenset() if any(isinstance(record, StepRecord) for record in run) else STANDARD
    series = _by_name(run if is_all else filter(lambda record: _is_wanted(record, drawn), run))
    counts = {name: sum(map(len, by_rank.values())) for name, by_rank in series.items()}
    names = sorted(counts, key=counts.__getitem__, reverse=True)[:MOST_SERIES]
    return {name: series[name] for name in names if counts[name] > is_all}


def _is_wanted(record: Record, drawn: Collection[str]) -> bool:
    return isinstance(record, PatternRecord) and record.name not in drawn


def _by_name(records: Iterable[Record]) -> dict[str, dict[int | None, list[tuple[int, float]]]]:
    series: dict[str, dict[int | None, list[tuple[int, float]]]] = {}
    for number in numbers(records):
        if math.isfinite(number.value):
            points = series.setdefault(number.metric, {}).setdefault(number.rank, [])
            points.append((len(points) + 1 if number.step is None else number.step, number.value))
    return series
