"""Steady speeds: where a process's warm-up ends is found in the log, and what all come to together."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from batchai_magics.metrics.record import StepRecord

PRECISION = 0.02
"""An interval is so long that the rounding of printed rates changes its speed by less."""

_MOST_INTERVALS = 100
_LEAST_INTERVALS = 4
_ROUNDING = 0.05  # rates are printed in tenths
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
        if record.step - first < least or spent <= 0 or blur + error > PRECISION * spent:
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


@dataclass(frozen=True, slots=True)
class Course:
    """One process's step lines, as far as its speed needs them; None where no line tells a rate."""

    last: StepRecord
    last_rated: StepRecord | None
    last_step: int
    intervals: Sequence[Interval]

    @classmethod
    def of(cls, steps: Sequence[StepRecord]) -> Course:
        """The course of some step lines, in file order."""
        rated = next((step for step in reversed(steps) if step.images_per_sec >= 0), None)
        return cls(steps[-1], rated, max(step.step for step in steps), intervals(steps))


def common_warm_up(courses: Mapping[int, Course]) -> int | None:
    """The step at which warm-up is over for half of the processes."""
    cuts = [warm_up_steps(course.intervals) for course in courses.values()]
    known = sorted(cut for cut in cuts if cut is not None)
    return known[len(known) // 2] if known else None


def steady_speed(course: Course, cut: int | None) -> Speed | None:
    """The speed of one process after step `cut`; that of all its steps if nothing is to be left out.

    The standard error is then the printed one, else that of the speeds between the lines after the cut. None
    if no line tells a rate.
    """
    last = course.last_rated
    if last is None:
        return None
    rest = [interval for interval in course.intervals if interval.first >= cut] if cut else []
    if len(rest) < 2:
        return Speed(last.images_per_sec, last.uncertainty, last.jitter)
    return Speed(_rate(rest), standard_error([interval.images_per_sec for interval in rest]), last.jitter)


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


@dataclass(frozen=True)
class Speeds:
    """The steady speed of each process whose lines tell one.

    `share` is what the sum of them has to be multiplied with to be the speed of all: where only some ranks
    are in the log, they stand for the others; where each tells the rate of all, their mean is that rate.
    """

    by_rank: Mapping[int, Speed]
    share: float

    @property
    def together(self) -> Speed | None:
        """The speed of all. Ranks that wait for each other err together, so that errors add up too."""
        if not self.by_rank:
            return None
        every = self.by_rank.values()
        return Speed(
            self.share * sum(speed.images_per_sec for speed in every),
            self.share * sum(speed.uncertainty for speed in every),
            self.share * sum(speed.jitter for speed in every),
        )

    @property
    def rates(self) -> dict[int, float]:
        """images/sec by rank."""
        return {rank: speed.images_per_sec for rank, speed in self.by_rank.items()}


def speeds(courses: Mapping[int, Course], cut: int | None, *, ranks: int, is_rate_global: bool) -> Speeds:
    """The speeds after step `cut` of a run of `ranks` processes."""
    by_rank = {rank: speed for rank, course in courses.items() if (speed := steady_speed(course, cut))}
    return Speeds(by_rank, (1 if is_rate_global else ranks) / (len(by_rank) or 1))


def rate_per_node(
    rates: Mapping[int, float], nodes: Mapping[int, str], *, whole: float | None = None
) -> dict[str, float] | None:
    """images/sec by node, the sum of its ranks; None if nothing is known of any.

    `nodes` has the node of each rank. Where not every rank tells its rate, those that do not share equally in
    what is left of `whole`, the rate of all.
    """
    share = None if whole is None else _share_of_silent(rates, nodes, whole)
    result: defaultdict[str, float] = defaultdict(float)
    for rank, node in nodes.items():
        rate = rates.get(rank, share)
        if rate is not None:
            result[node] += rate
    return dict(sorted(result.items())) or None


def _share_of_silent(rates: Mapping[int, float], ranks: Collection[int], whole: float) -> float | None:
    """What each rank without a rate has of what the others leave of the whole; None if all have one."""
    silent = len(ranks) - len(rates.keys() & ranks)
    known = sum(rates[rank] for rank in ranks if rank in rates)
    return max(0.0, whole - known) / silent if silent else None


def skew(rates: Sequence[float]) -> float | None:
    """The span of the rates over their mean; None for fewer than two."""
    if len(rates) < 2 or not sum(rates):
        return None
    return (max(rates) - min(rates)) * len(rates) / sum(rates)
