"""The lines of other programs than tf_cnn_benchmarks, told in its terms, so that they are summed up alike."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from batchai_magics.metrics.record import PatternRecord, Record, StepRecord, ValueRecord

if TYPE_CHECKING:
    import pandas

ABSENT = float("nan")
"""The loss of a line that tells none: `is` tells it from a NaN that was printed."""

GLOBAL_RATES = ("total_samples_per_sec",)
"""Rates of all processes together, which each of them prints: never to be added up."""

_RATES = ("images_per_sec_per_device", "images_per_sec", "samples_per_sec", *GLOBAL_RATES)
_LOSS = "loss"
_DEVICES = "devices"
_COUNTS = ("step", "rank", "epoch")

STANDARD = frozenset((*_RATES, _LOSS))
"""Names of numbers that stand for a step line's, also where the user's own pattern has them."""

_Number = ValueRecord | PatternRecord
_Line = dict[str, _Number]


def steps_of_values(records: Iterable[Record]) -> list[StepRecord]:
    """A step line for each line with a rate or a loss, in file order for each rank.

    What is printed there is the rate since the line before, while a step line tells the mean of all steps: so
    it becomes the mean so far, with its standard error and jitter. A rate that is not there is NaN, a loss is
    ABSENT. Where a program counts from the start again (each epoch), lines are counted instead.
    """
    lines: defaultdict[int | None, list[_Line]] = defaultdict(list)
    for line in _lines(record for record in records if getattr(record, "name", "") in STANDARD):
        lines[next(iter(line.values())).rank].append(line)
    return [step for rank, of_rank in lines.items() for step in _steps(rank, of_rank)]


def value_rows(records: Iterable[Record]) -> list[dict[str, float | None]]:
    """The numbers of each line by name, with its `step`, `rank` and `epoch`, in file order."""
    rows = []
    for line in _lines(records):
        first, *_ = line.values()
        place = {"step": first.step, "rank": first.rank, "epoch": getattr(first, "epoch", None)}
        rows.append({**place, **{name: record.value for name, record in line.items()}})
    return rows


def value_frame(records: Iterable[Record], columns: Sequence[str]) -> pandas.DataFrame:
    """The rows as a table: these columns, `epoch`, and one for each further number."""
    import pandas as pd

    rows = value_rows(records)
    names = dict.fromkeys([*columns, *(name for row in rows for name in row)])
    kinds = {name: "Int64" if name in _COUNTS else "float64" for name in names}
    return pd.DataFrame(rows, columns=list(names)).astype(kinds)


def count_devices(records: Iterable[Record]) -> int:
    """How many devices a program says it ran on; 0 if it does not say."""
    named = (r.value for r in records if isinstance(r, ValueRecord) and r.name == _DEVICES)
    return int(max(named, default=0))


def _lines(records: Iterable[Record]) -> list[_Line]:
    """The numbers of each line by name, in file order; a name that comes again is the next of glued lines."""
    every_line: list[_Line] = []
    current: dict[tuple[int | None, int], _Line] = {}
    for record in records:
        if isinstance(record, (ValueRecord, PatternRecord)):
            line = current.get((record.rank, record.offset))
            if line is None or isinstance(line.get(record.name), type(record)):
                line = current[record.rank, record.offset] = {}
                every_line.append(line)
            line[record.name] = record
    return every_line


def _steps(rank: int | None, lines: Sequence[_Line]) -> list[StepRecord]:
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


def _numbers(lines: Sequence[_Line]) -> list[int]:
    """The steps of the lines, counted from one; the lines' places where steps are missing or fall back."""
    steps = [next(iter(line.values())).step for line in lines]
    known = [step for step in steps if step is not None]
    if len(known) < len(steps) or not _is_ascending(known):
        return list(range(1, len(steps) + 1))
    return [step + 1 for step in known] if known[:1] == [0] else known


def _is_ascending(steps: Sequence[int]) -> bool:
    return all(later > step for step, later in pairwise(steps))


def _rate(line: _Line) -> float:
    return next((line[name].value for name in _RATES if name in line), math.nan)


def _speeds_so_far(numbers: Sequence[int], rates: Sequence[float]) -> Iterator[tuple[int, float, float]]:
    """Each line's number, and the mean rate of all steps up to it with its standard error."""
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
    """As tf_cnn_benchmarks tells it: 1.4826 times the median distance from the median."""
    middle = _median(rates)
    return 1.4826 * _median([abs(rate - middle) for rate in rates])


def _median(values: Sequence[float]) -> float:
    """The median, 0 of nothing; the standard library's takes 5 ms to import."""
    ordered = sorted(values) or [0.0]
    middle = len(ordered) // 2
    return (ordered[middle] + ordered[~middle]) / 2
