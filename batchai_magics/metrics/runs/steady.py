"""A process's speed once it is warm: where warm-up ends is found in the log, not assumed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from batchai_magics.metrics.record import StepRecord

_MOST_INTERVALS = 100
_LEAST_INTERVALS = 4
_ROUNDING = 0.05  # rates are printed in tenths
_PRECISION = 0.02  # an interval is so long that the printed tenths change its speed by less
_SLOWNESS = 0.05  # a beginning nearer to the steady speed is no warm-up


@dataclass(frozen=True, slots=True)
class Speed:
    """A rate with its standard error and its jitter, all in images/sec.

    `jitter` is 1.4826 times the median distance of single steps from the median one, as the program
    printed it.
    """

    images_per_sec: float
    uncertainty: float
    jitter: float

    def __str__(self) -> str:
        return f"{self.images_per_sec:,.1f} ± {self.uncertainty:,.1f} (jitter {self.jitter:,.1f})"


@dataclass(frozen=True, slots=True)
class Interval:
    """The speed between two printed steps of one process."""

    first: int
    last: int
    images_per_sec: float


def intervals(steps: Sequence[StepRecord]) -> list[Interval]:
    """What a process did from step to step, which the cumulative mean of a step line hides.

    With n steps at a mean rate r, n/r is the time taken in batches, so that the batch size cancels out.
    Lines are merged until an interval is longer than the rounding of the printed rates can blur, and a
    hundredth of the run.
    """
    ordered = sorted((step for step in steps if step.images_per_sec > 0), key=lambda record: record.step)
    least = ordered[-1].step / _MOST_INTERVALS if ordered else 0
    result: list[Interval] = []
    first, began, blur = 0, 0.0, 0.0
    for record in ordered:
        ended = record.step / record.images_per_sec
        spent, error = ended - began, ended * _ROUNDING / record.images_per_sec
        if record.step - first < least or spent <= 0 or blur + error > _PRECISION * spent:
            continue
        result.append(Interval(first, record.step, (record.step - first) / spent))
        first, began, blur = record.step, ended, error
    return result


def warm_up_steps(intervals: Sequence[Interval]) -> int | None:
    """The step after which a process is at its steady speed: 0 if it always is; None for too few lines.

    This is the marginal standard error rule (White 1997): of all beginnings up to half of the run, leave out
    the one that makes the rest's mean most certain. Neither a late disturbance nor a beginning that is faster
    than the rest counts as warm-up.
    """
    if len(intervals) < _LEAST_INTERVALS:
        return None
    rates = [interval.images_per_sec for interval in intervals]
    cut = _least_error(rates)
    if not cut:
        return 0
    before, after = _mean(rates[:cut]), _mean(rates[cut:])
    return intervals[cut - 1].last if before < (1 - _SLOWNESS) * after else 0


def common_warm_up(series: Mapping[int, Sequence[StepRecord]]) -> int | None:
    """The step at which warm-up is over for half of the processes."""
    cuts = [warm_up_steps(intervals(steps)) for steps in series.values()]
    known = sorted(cut for cut in cuts if cut is not None)
    return known[len(known) // 2] if known else None


def steady_speed(steps: Sequence[StepRecord], cut: int | None) -> Speed | None:
    """The speed of one process after step `cut`; that of all its steps if nothing is to be left out.

    The standard error is then the printed one, else that of the speeds between the lines after the cut. None
    if no line tells a rate.
    """
    last = next((step for step in reversed(steps) if step.images_per_sec >= 0), None)
    if last is None:
        return None
    rest = _intervals_after(steps, cut)
    if len(rest) < 2:
        return Speed(last.images_per_sec, last.uncertainty, last.jitter)
    return Speed(_rate(rest), standard_error([interval.images_per_sec for interval in rest]), last.jitter)


def _intervals_after(steps: Sequence[StepRecord], cut: int | None) -> list[Interval]:
    return [interval for interval in intervals(steps) if interval.first >= cut] if cut else []


def _rate(intervals: Sequence[Interval]) -> float:
    """The speed over intervals that follow each other."""
    taken = sum((interval.last - interval.first) / interval.images_per_sec for interval in intervals)
    return (intervals[-1].last - intervals[0].first) / taken


def _least_error(values: Sequence[float]) -> int:
    """How many leading values to leave out so that the standard error of the others' mean is least."""
    total = squares = 0.0
    best, least = 0, float("inf")
    for start in reversed(range(len(values))):
        total += values[start]
        squares += values[start] ** 2
        count = len(values) - start
        error = max(0.0, squares - total**2 / count) / count**2
        if start <= len(values) // 2 and error <= least:
            best, least = start, error
    return best


def standard_error(values: Sequence[float]) -> float:
    """The standard error of the mean of two values or more."""
    mean = _mean(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(variance / len(values))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
