"""Finds ranks that are slower than the others by a relevant and statistically significant amount.

The run is divided into segments of steps. In each, a rank is compared with the median of the others, so that
common slowdowns cancel out; the log ratios must be below zero by Yuen's test, the t test of a trimmed mean
(Biometrika 61, 1974), at a level divided by the number of ranks (Bonferroni). Autocorrelated segments count
as fewer. A disturbance as long as the log cannot be distinguished from a straggler.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from batchai_magics.metrics.runs.mean_rates import median
from batchai_magics.metrics.runs.steady_speed import PRECISION, RankHistory, Speeds

STRAGGLER_LAG = 0.05
"""A straggler is at least this much slower than the median rank."""

CHANCE = 0.05
"""The significance level: the largest probability of a false positive per run."""

_MOST_STRETCHES, _LEAST_STRETCHES = 20, 3
_PARTS = (0, 0.5, 0.75)  # where the tested parts of the run begin
_TRIMMED, _MANY = 0.2, 10  # fraction trimmed at each end of at least this many ratios: outliers do not decide
_MOST_ALIKE = 0.9
_ROUNDING = 1e-12  # of a difference of log ratios: less is noise, not a likeness of neighbours


def stragglers(speeds: Speeds) -> tuple[int, ...]:
    """The ranks significantly slower than the median by at least 5 %; the slowest first."""
    rates = speeds.rates
    ordered = sorted(rates, key=lambda rank: rates[rank])
    if len(ordered) < 2:
        return ()
    limit = (1 - STRAGGLER_LAG) * median([*rates.values()])
    slow = [rank for rank in ordered if rates[rank] < limit]
    if not slow:
        return ()
    pace = _pace({rank: speeds.histories[rank] for rank in ordered}, speeds.warm_up_steps or 0)
    return tuple(rank for rank in slow if chance(pace[rank]) * len(ordered) < CHANCE)


def chance(ratios: Sequence[float]) -> float:
    """The p-value that these log ratios are below zero; 1 for too few.

    All of them and their last parts are tested, because a rank may become slow during the run.
    """
    parts = [ratios[int(part * len(ratios)) :] for part in _PARTS]
    return min(1.0, len(parts) * min(_yuen(part) for part in parts))


def _pace(histories: Mapping[int, RankHistory], cut: int) -> dict[int, list[float]]:
    """For each segment, the log of each rank's speed relative to the median of the others."""
    edges = _edges(histories, cut)
    if not edges:
        return {rank: [] for rank in histories}
    spent = {rank: _spent(history, edges) for rank, history in histories.items()}
    result: dict[int, list[float]] = {rank: [] for rank in histories}
    for times in zip(*spent.values(), strict=True):
        ordered = sorted(times)
        for rank, time in zip(histories, times, strict=True):
            place = bisect_left(ordered, time)
            result[rank].append(math.log(median(ordered[:place] + ordered[place + 1 :]) / time))
    return result


def _edges(histories: Mapping[int, RankHistory], cut: int) -> list[int]:
    """The steps that delimit the segments, taken from the rank with the fewest lines."""
    known = [[step for step in history.steps if step >= cut] for history in histories.values()]
    if not all(known):
        return []
    first, last = max(min(steps) for steps in known), min(max(steps) for steps in known)
    edges = min((sorted({step for step in steps if first <= step <= last}) for steps in known), key=len)
    width = math.ceil((len(edges) - 1) / _MOST_STRETCHES) or 1
    return edges[::-1][::width][::-1]


def _spent(history: RankHistory, edges: Sequence[int]) -> list[float]:
    """The time from edge to edge in batches, linearly interpolated between printed steps."""
    steps = history.steps
    taken = ((each.last - each.first) / each.images_per_sec for each in history.intervals)
    times = list(accumulate(taken, initial=0.0))
    at = []
    for edge in edges:
        right = min(max(1, bisect_left(steps, edge)), len(steps) - 1)
        share = (edge - steps[right - 1]) / (steps[right] - steps[right - 1])
        at.append(times[right - 1] + share * (times[right] - times[right - 1]))
    return [later - earlier for earlier, later in pairwise(at)]


def _yuen(values: Sequence[float]) -> float:
    """The one-sided p-value of Yuen's test that the trimmed mean is below zero; 1 for too few values.

    The spread is at least the rounding error of the printed rates.
    """
    count = len(values)
    if count < _LEAST_STRETCHES:
        return 1.0
    out = int(_TRIMMED * count) if count >= _MANY else 0
    ordered = sorted(values)
    kept = ordered[out : count - out]
    winsorized = [kept[0]] * out + kept + [kept[-1]] * out
    mean = sum(winsorized) / count
    deviation = math.sqrt(sum((value - mean) ** 2 for value in winsorized) / (count - 1))
    spread = max(deviation, PRECISION)
    error = spread / ((1 - 2 * out / count) * math.sqrt(count / _repetition(values)))
    return _upper_tail(-sum(kept) / len(kept) / error, len(kept) - 1)


def _repetition(values: Sequence[float]) -> float:
    """How many neighbours correspond to one independent value, by their autocorrelation."""
    count = len(values)
    mean = sum(values) / count
    square = sum((value - mean) ** 2 for value in values)
    shared = sum((left - mean) * (right - mean) for left, right in pairwise(values))
    found = shared / square if square > count * _ROUNDING**2 else 0.0
    unbiased = (count * found + 1) / (count - 4) if count > 4 else 0.0  # Kendall (1954)
    alike = min(_MOST_ALIKE, max(0.0, unbiased) + 1 / math.sqrt(count))
    return (1 + alike) / (1 - alike)


def _upper_tail(t: float, freedom: int) -> float:
    """The upper tail probability of Student's t (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    square, odd = math.cos(angle) ** 2, freedom % 2
    terms = accumulate(
        (square * (n - 1) / n for n in range(2 + odd, freedom - 1, 2)),
        lambda product, factor: product * factor,
        initial=math.cos(angle) if odd else 1.0,
    )
    inner = math.sin(angle) * sum(terms) if freedom > 1 else 0.0
    return (1 - ((angle + inner) * 2 / math.pi if odd else inner)) / 2
