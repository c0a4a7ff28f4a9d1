"""The numbers of a log beside images/sec and loss, as one series per rank."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from batchai_magics.metrics.record import PatternRecord, Record, StepRecord
from batchai_magics.metrics.runs.numbers import numbers
from batchai_magics.metrics.runs.values import STANDARD

MOST_SERIES = 4

Points = Sequence[tuple[int, float]]


def further_series(records: Iterable[Record], *, is_all: bool) -> dict[str, Mapping[int | None, Points]]:
    """Up to four numbers by name, each as (step, value) by rank: what a pattern of the user's has found.

    With `is_all`, whatever the log tells more than once counts, the names with most values first. A number
    whose step is not told is the how-manieth of its rank; one that is not finite is left out.
    """
    run = list(records)
    drawn = frozenset() if any(isinstance(record, StepRecord) for record in run) else STANDARD
    told = _by_name(run if is_all else filter(lambda record: _is_wanted(record, drawn), run))
    counts = {name: sum(map(len, by_rank.values())) for name, by_rank in told.items()}
    names = sorted(counts, key=counts.__getitem__, reverse=True)[:MOST_SERIES]
    return {name: told[name] for name in names if counts[name] > is_all}


def _is_wanted(record: Record, drawn: Collection[str]) -> bool:
    return isinstance(record, PatternRecord) and record.name not in drawn


def _by_name(records: Iterable[Record]) -> dict[str, dict[int | None, list[tuple[int, float]]]]:
    told: dict[str, dict[int | None, list[tuple[int, float]]]] = {}
    for number in numbers(records):
        if math.isfinite(number.value):
            points = told.setdefault(number.metric, {}).setdefault(number.rank, [])
            points.append((len(points) + 1 if number.step is None else number.step, number.value))
    return told
