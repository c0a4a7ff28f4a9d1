"""Steady speeds: finds the end of a process's warm-up, combines the processes, and finds slow ranks."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from batchai_magics.metrics.runs.mean_rates import MeanRate, RatesByRank, median

PRECISION = 0.02
"""Intervals are long enough that rounding of the printed rates changes their speed by less."""

_MOST_INTERVALS = 100
_LEAST_INTERVALS = 4
_ROUNDING = 0.05  # rates are printed with one decimal
_SLOWNESS = 0.05  # a start closer to the steady speed is not warm-up

STRAGGLER_LAG = 0.05
"""A straggler is at least this much slower than the median rank."""

CHANCE = 0.05
"""The significance level: the largest probability of a false positive per run."""

_MOST_STRETCHES, _LEAST_STRETCHES = 20, 3
_PARTS = (0, 0.5, 0.75)  # where the tested parts of the run begin
_TRIMMED, _MANY = 0.2, 10  # fraction trimmed at each end of at least this many ratios: outliers do not decide
_MOST_ALIKE = 0.9
_NOISE = 1e-12  # of a difference of log ratios: less is noise, not a likeness of neighbours


@dataclass(frozen=True, slots=True)
class Speed:
    """A rate with its standard error (`uncertainty`) and jitter, all in images/sec.

    `jitter` is 1.4826 times the median absolute deviation of single steps, as printed by the program.
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


def intervals(steps: Sequence[MeanRate]) -> list[Interval]:
    """The speeds between printed steps, which the cumulative means of step lines hide.

    With n steps at a mean rate r, n/r is the elapsed time in batches, so the batch size cancels out. Lines
    are merged until an interval exceeds both the rounding error of printed rates and a hundredth of the run.
    """
    ordered = steps
    if any(later.step < earlier.step for earlier, later in pairwise(steps)):
        ordered = sorted(steps, key=lambda record: record.step)
    least = max((step.step for step in steps if step.images_per_sec > 0), default=0) / _MOST_INTERVALS
    result: list[Interval] = []
    first, began, blur = 0, 0.0, 0.0
    for record in ordered:
        if not record.images_per_sec > 0:
            continue
        ended = record.step / record.images_per_sec
        spent, error = ended - began, ended * _ROUNDING / record.images_per_sec
        if record.step - first < least or spent <= 0 or blur + error > PRECISION * spent:
            continue
        result.append(Interval(first, record.step, (record.step - first) / spent))
        first, began, blur = record.step, ended, error
    return result


def warm_up_steps(intervals: Sequence[Interval]) -> int | None:
    """The step after which a process runs at its steady speed: 0 without warm-up, None for too few lines.

    This is the marginal standard error rule (White 1997): among all cuts within the first half of the run,
    choose the one that minimizes the standard error of the rest. Neither a late disturbance nor a fast start
    counts as warm-up.
    """
    if len(intervals) < _LEAST_INTERVALS:
        return None
    rates = [interval.images_per_sec for interval in intervals]
    cut = _min_error_cut(rates)
    if not cut:
        return 0
    before, after = _mean(rates[:cut]), _mean(rates[cut:])
    return intervals[cut - 1].last if before < (1 - _SLOWNESS) * after else 0


@dataclass(frozen=True, slots=True)
class RankHistory:
    """The step lines of one process, reduced to what its speed depends on; None without a rate."""

    last: MeanRate
    last_rated: MeanRate | None
    last_step: int
    intervals: Sequence[Interval]

    @classmethod
    def of(cls, steps: Sequence[MeanRate]) -> RankHistory:
        """Summarize step lines in file order."""
        rated = next((step for step in reversed(steps) if step.images_per_sec >= 0), None)
        return cls(steps[-1], rated, max(step.step for step in steps), intervals(steps))

    @property
    def steps(self) -> list[int]:
        """The steps at which its intervals, which follow each other, begin and end."""
        ends = [interval.last for interval in self.intervals]
        return [self.intervals[0].first, *ends] if ends else []


def steady_speed(history: RankHistory, cut: int | None) -> Speed | None:
    """The speed of one process after step `cut`, or over all steps if `cut` is 0 or None.

    The standard error is printed, or computed from the intervals after the cut. None if no line has a rate.
    """
    last = history.last_rated
    if last is None:
        return None
    rest = [interval for interval in history.intervals if interval.first >= cut] if cut else []
    if len(rest) < 2:
        return Speed(last.images_per_sec, last.uncertainty, last.jitter)
    elapsed = sum((interval.last - interval.first) / interval.images_per_sec for interval in rest)
    rate = (rest[-1].last - rest[0].first) / elapsed
    return Speed(rate, standard_error([interval.images_per_sec for interval in rest]), last.jitter)


def _min_error_cut(values: Sequence[float]) -> int:
    """The number of leading values to drop so that the standard error of the remaining mean is smallest."""
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
    """The standard error of the mean of at least two values."""
    mean = _mean(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(variance / len(values))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


class Speeds:
    """The steady speeds of the processes of a run, from their mean rates.

    `warm_up_steps`, after which half of the processes have warmed up, are left out; None for too few lines.
    `share` scales the sum of the speeds to all processes: ranks missing from the log count like the
    others, and if each rank prints the rate of all, the mean is that rate. `rates` are the images/sec by
    rank; empty if each prints the rate of all.
    """

    def __init__(self, rates: RatesByRank, *, ranks: int, is_rate_global: bool) -> None:
        """`ranks` processes were announced; those that have printed a rate may be more."""
        self.histories = {rank: RankHistory.of(lines) for rank, lines in rates.items()}
        cuts = [warm_up_steps(history.intervals) for history in self.histories.values()]
        known = sorted(cut for cut in cuts if cut is not None)
        self.warm_up_steps = known[len(known) // 2] if known else None
        self.by_rank = {
            rank: speed
            for rank, history in self.histories.items()
            if (speed := steady_speed(history, self.warm_up_steps))
        }
        rank_speeds = {} if is_rate_global else self.by_rank
        self.rates = {rank: speed.images_per_sec for rank, speed in rank_speeds.items()}
        self.ranks = max(ranks, len(rates))
        self.share = (1 if is_rate_global else self.ranks) / (len(self.by_rank) or 1)

    @property
    def last_step(self) -> int:
        """The last step of any process; 0 without any."""
        return max((history.last_step for history in self.histories.values()), default=0)

    @property
    def mean(self) -> float | None:
        """The speed of all processes over all steps, with the warm-up."""
        lasts = [self.histories[rank].last.images_per_sec for rank in self.by_rank]
        return self.share * sum(lasts) if lasts else None

    @property
    def total(self) -> Speed | None:
        """The speed of all processes; their errors are correlated by waiting, so they add up."""
        if not self.by_rank:
            return None
        speeds = self.by_rank.values()
        return Speed(
            self.share * sum(speed.images_per_sec for speed in speeds),
            self.share * sum(speed.uncertainty for speed in speeds),
            self.share * sum(speed.jitter for speed in speeds),
        )

    def is_of_one_rank(self, total: float) -> bool:
        """Whether a printed total is closer to the speed of one of several ranks than to the speed of all.

        Ranks that do not train together each print their own; others print the same one, except for the last
        digit.
        """
        together = self.total.images_per_sec if self.total else 0.0
        if len(self.rates) < 2 or min(*self.rates.values(), total, together) <= 0:
            return False
        return min(abs(math.log(total / rate)) for rate in self.rates.values()) < abs(
            math.log(total / together)
        )


def rate_per_node(
    rates: Mapping[int, float], nodes: Mapping[int, str], *, whole: float | None = None
) -> dict[str, float] | None:
    """images/sec by node, summed over its ranks; None if no rate is known.

    Args:
        rates: images/sec by rank; ranks may be missing.
        nodes: The node of each rank.
        whole: The rate of all ranks. Ranks without a rate share equally in the remainder.
    """
    silent = len(nodes) - len(rates.keys() & nodes)
    share = None
    if whole is not None and silent:
        share = max(0.0, whole - sum(rates[rank] for rank in nodes if rank in rates)) / silent
    result: defaultdict[str, float] = defaultdict(float)
    for rank, node in nodes.items():
        rate = rates.get(rank, share)
        if rate is not None:
            result[node] += rate
    return dict(sorted(result.items())) or None


def skew(rates: Sequence[float]) -> float | None:
    """The range of the rates relative to their mean; None for fewer than two."""
    if len(rates) < 2 or not sum(rates):
        return None
    return (max(rates) - min(rates)) * len(rates) / sum(rates)


def stragglers(speeds: Speeds) -> tuple[int, ...]:
    """The ranks significantly slower than the median by at least 5 %; the slowest first.

    The run is divided into segments of steps. In each, a rank is compared with the median of the others, so
    that common slowdowns cancel out; the log ratios must be below zero by Yuen's test, the t test of a
    trimmed mean (Biometrika 61, 1974), at a level divided by the number of ranks (Bonferroni). Autocorrelated
    segments count as fewer. A disturbance as long as the log cannot be distinguished from a straggler.
    """
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
            index = bisect_left(ordered, time)
            result[rank].append(math.log(median(ordered[:index] + ordered[index + 1 :]) / time))
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
    durations = ((interval.last - interval.first) / interval.images_per_sec for interval in history.intervals)
    times = list(accumulate(durations, initial=0.0))
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
    trimmed = ordered[out : count - out]
    winsorized = [trimmed[0]] * out + trimmed + [trimmed[-1]] * out
    mean = sum(winsorized) / count
    deviation = math.sqrt(sum((value - mean) ** 2 for value in winsorized) / (count - 1))
    spread = max(deviation, PRECISION)
    error = spread / ((1 - 2 * out / count) * math.sqrt(count / _repetition(values)))
    return _upper_tail(-sum(trimmed) / len(trimmed) / error, len(trimmed) - 1)


def _repetition(values: Sequence[float]) -> float:
    """How many neighbours correspond to one independent value, by their autocorrelation."""
    count = len(values)
    mean = sum(values) / count
    square = sum((value - mean) ** 2 for value in values)
    shared = sum((left - mean) * (right - mean) for left, right in pairwise(values))
    correlation = shared / square if square > count * _NOISE**2 else 0.0
    unbiased = (count * correlation + 1) / (count - 4) if count > 4 else 0.0  # Kendall (1954)
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
