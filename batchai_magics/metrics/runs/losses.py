"""Where a loss is going."""

from __future__ import annotations

import enum
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from batchai_magics.metrics.record import StepRecord
from batchai_magics.metrics.runs.other_programs import ABSENT

_MOST_POINTS = 200
_LEAST_POINTS = 5
_SIGNIFICANT = 1.96  # standard deviations: 5 % of losses that go nowhere are called otherwise


class LossTrend(str, enum.Enum):
    """Where a loss goes over a run."""

    FALLING = "falling"
    FLAT = "flat"
    RISING = "rising"


def mean_losses(series: Mapping[int, Sequence[StepRecord]]) -> dict[int, float]:
    """The loss at each step, in order: the mean of the processes that have printed it."""
    found: defaultdict[int, list[float]] = defaultdict(list)
    for steps in series.values():
        for record in steps:
            if record.loss is not ABSENT:
                found[record.step].append(record.loss)
    return {step: sum(losses) / len(losses) for step, losses in sorted(found.items())}


def loss_trend(losses: Iterable[float]) -> LossTrend | None:
    """Whether losses fall or rise more clearly than by chance; None for fewer than five finite ones.

    This is the Mann-Kendall test at 5 %: it counts the pairs that fall, so that a loss may level off, and
    single outliers do not matter.
    """
    values = _thinned([loss for loss in losses if math.isfinite(loss)])
    count = len(values)
    if count < _LEAST_POINTS:
        return None
    score = sum(
        (later > value) - (later < value)
        for place, value in enumerate(values)
        for later in values[place + 1 :]
    )
    spread = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    if abs(score) - 1 <= _SIGNIFICANT * spread:
        return LossTrend.FLAT
    return LossTrend.FALLING if score < 0 else LossTrend.RISING


def _thinned(values: list[float]) -> list[float]:
    """At most 200 means of neighbours."""
    width = math.ceil(len(values) / _MOST_POINTS) or 1
    groups = [values[start : start + width] for start in range(0, len(values), width)]
    return [sum(group) / len(group) for group in groups]
