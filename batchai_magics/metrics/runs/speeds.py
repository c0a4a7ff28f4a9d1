"""The speeds of a run's processes, and what they come to together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from batchai_magics.metrics.record import StepRecord
from batchai_magics.metrics.runs.steady import Speed, steady_speed

STRAGGLER_LAG = 0.05
"""A rank this much slower than the median one is a straggler."""


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
        found = self.by_rank.values()
        return Speed(
            self.share * sum(speed.images_per_sec for speed in found),
            self.share * sum(speed.uncertainty for speed in found),
            self.share * sum(speed.jitter for speed in found),
        )

    @property
    def rates(self) -> dict[int, float]:
        """images/sec by rank."""
        return {rank: speed.images_per_sec for rank, speed in self.by_rank.items()}


def speeds(
    series: Mapping[int, Sequence[StepRecord]], cut: int | None, *, ranks: int, is_rate_global: bool
) -> Speeds:
    """The speeds after step `cut` of a run of `ranks` processes."""
    found = {rank: speed for rank, steps in series.items() if (speed := steady_speed(steps, cut))}
    return Speeds(found, (1 if is_rate_global else ranks) / (len(found) or 1))


def rate_per_node(rates: Mapping[int, float], nodes: Mapping[int, str]) -> dict[str, float] | None:
    """images/sec by node, the sum of its ranks; None if no rank's node is known."""
    result: defaultdict[str, float] = defaultdict(float)
    for rank, rate in rates.items():
        if rank in nodes:
            result[nodes[rank]] += rate
    return dict(sorted(result.items())) or None


def skew(rates: Sequence[float]) -> float | None:
    """The span of the rates over their mean; None for fewer than two."""
    if len(rates) < 2 or not sum(rates):
        return None
    return (max(rates) - min(rates)) * len(rates) / sum(rates)


def stragglers(rates: Mapping[int, float]) -> tuple[int, ...]:
    """The ranks that are more than 5 % behind the median one, the slowest first."""
    ordered = sorted(rates, key=lambda rank: rates[rank])
    if len(ordered) < 2:
        return ()
    middle = len(ordered) // 2
    median = (rates[ordered[middle]] + rates[ordered[~middle]]) / 2
    return tuple(rank for rank in ordered if rates[rank] < (1 - STRAGGLER_LAG) * median)
