"""Converts the metrics of other programs to step records, so that all logs are summarized alike."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from batchai_magics.metrics.measurement import Measurement, Record, StepRecord

if TYPE_CHECKING:
    import pandas

ABSENT = float("nan")
"""The loss of a line without one; compare with `is`, because a printed loss may be NaN."""

GLOBAL_RATES = ("total_samples_per_sec",)
"""Rates of all processes together, printed by each of them: never to be summed."""

_RATES = ("images_per_sec_per_device", "images_per_sec", "samples_per_sec", *GLOBAL_RATES)
_LOSS = "loss"
_DEVICES = "devices"
_COUNTS = ("step", "rank", "epoch")

STANDARD = frozenset((*_RATES, _LOSS))
"""Metrics that map to fields of a step record, also if a user-defined pattern provides them."""

_LineNumbers = dict[str, Measurement]


def steps_of_values(records: Iterable[Record]) -> list[StepRecord]:
    """Make a step record for each line with a rate or a loss, in file order per rank.

    Other programs print the rate since the previous line, but a step record holds the mean over all steps; so
    rates become running means with standard error and jitter. A missing rate is NaN, a missing loss ABSENT.
    If step numbers restart, as in each epoch, lines are counted instead.
    """
    lines: defaultdict[int | None, list[_LineNumbers]] = defaultdict(list)
    for line in _lines(record for record in records if getattr(record, "name", "") in STANDARD):
        lines[next(iter(line.values())).rank].append(line)
    return [step for rank, of_rank in lines.items() for step in _steps(rank, of_rank)]


def value_rows(records: Iterable[Record]) -> list[dict[str, float | None]]:
    """The numbers of each line by name, with its `step`, `rank` and `epoch`, in file order."""
    rows = []
    for line in _lines(records):
        first, *_ = line.values()
        place = {"step": first.step, "rank": first.rank, "epoch": first.epoch}
        rows.append({**place, **{name: record.value for name, record in line.items()}})
    return rows


def value_frame(records: Iterable[Record], columns: Sequence[str]) -> pandas.DataFrame:
    """The rows as a table: the given columns, `epoch`, and one for each other number."""
    import pandas as pd

    rows = value_rows(records)
    names = dict.fromkeys([*columns, *(name for row in rows for name in row)])
    is_fraction = any(not float(row["epoch"] or 0).is_integer() for row in rows)
    counts = {name for name in _COUNTS if name != "epoch" or not is_fraction}
    kinds = {name: "Int64" if name in counts else "float64" for name in names}
    return pd.DataFrame(rows, columns=list(names)).astype(kinds)


def count_devices(records: Iterable[Record]) -> int:
    """The number of devices that the program printed; 0 if unknown."""
    named = (r.value for r in records if isinstance(r, Measurement) and r.name == _DEVICES)
    return int(max(named, default=0))


def _lines(records: Iterable[Record]) -> list[_LineNumbers]:
    """The numbers of each line by name, in file order; a repeated name starts the next joined line."""
    every_line: list[_LineNumbers] = []
    current: dict[tuple[int | None, int], _LineNumbers] = {}
    for record in records:
        if isinstance(record, Measurement):
            line = current.get((record.rank, record.offset))
            if line is None or record.name in line:
                line = current[record.rank, record.offset] = {}
                every_line.append(line)
            line[record.name] = record
    return every_line


def _steps(rank: int | None, lines: Sequence[_LineNumbers]) -> list[StepRecord]:
    rates = [_rate(line) for line in lines]
    jitter = _jitter([rate for rate in rates if rate > 0])
    speeds = _speeds_so_far(_numbers(lines), rates)
    return [
        StepRecord(
            step=number,
            rank=rank,
            images_per_sec=mean,
            uncertainty=error,
            jitter=jitter,
            loss=line[_LOSS].value if _LOSS in line else ABSENT,
            offset=next(iter(line.values())).offset,
        )
        for line, (number, mean, error) in zip(lines, speeds, strict=True)
    ]


def _numbers(lines: Sequence[_LineNumbers]) -> list[int]:
    """The step of each line, counted from 1; line numbers where steps are missing or decrease."""
    steps = [next(iter(line.values())).step for line in lines]
    known = [step for step in steps if step is not None]
    if len(known) < len(steps) or not _is_ascending(known):
        return list(range(1, len(steps) + 1))
    return [step + 1 for step in known] if known[:1] == [0] else known


def _is_ascending(steps: Sequence[int]) -> bool:
    return all(later > step for step, later in pairwise(steps))


def _rate(line: _LineNumbers) -> float:
    return next((line[name].value for name in _RATES if name in line), math.nan)


def _speeds_so_far(numbers: Sequence[int], rates: Sequence[float]) -> Iterator[tuple[int, float, float]]:
    """For each line, its step and the mean rate of all steps up to it with its standard error."""
    done, spent, count, total, squares = 0, 0.0, 0, 0.0, 0.0
    for number, rate in zip(numbers, rates, strict=True):
        if not rate > 0:
            yield number, math.nan, math.nan
            continue
        spent += (number - done) / rate
        done, count, total, squares = number, count + 1, total + rate, squares + rate**2
        variance = max(0.0, squares / count - (total / count) ** 2)
        yield number, number / spent, math.sqrt(variance / count)


def _jitter(rates: Sequence[float]) -> float:
    """Jitter as tf_cnn_benchmarks defines it: 1.4826 times the median absolute deviation."""
    middle = _median(rates)
    return 1.4826 * _median([abs(rate - middle) for rate in rates])


def _median(values: Sequence[float]) -> float:
    """The median; 0 of no values. Importing the standard library's takes 5 ms."""
    ordered = sorted(values) or [0.0]
    middle = len(ordered) // 2
    return (ordered[middle] + ordered[~middle]) / 2
