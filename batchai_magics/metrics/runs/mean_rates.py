"""The mean rate of each process up to each of its lines, as printed or from the rates of single lines."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from batchai_magics.metrics.measurement import Measurement, Record, is_step_line, lines_of

GLOBAL_RATES = ("total_samples_per_sec",)
"""Rates of all processes together, printed by each of them: never to be summed."""

_RATES = ("images_per_sec_per_device", "images_per_sec", "samples_per_sec", *GLOBAL_RATES)
_LOSS = "loss"


class MeanRate(NamedTuple):
    """The rate of a process over all steps up to this one, in images/sec; NaN where it printed none.

    `uncertainty` is its standard error, `jitter` the scaled median absolute deviation of single rates.
    """

    step: int
    images_per_sec: float
    uncertainty: float
    jitter: float


RatesByRank = Mapping[int, Sequence[MeanRate]]


def mean_rates(records: Iterable[Record]) -> RatesByRank:
    """The mean rates of each process of one run, whose ranks are known or numbered: ascending by rank.

    tf_cnn_benchmarks prints them. Other programs print the rate since the previous line, so a line with a
    rate or a loss has the running mean.
    """
    step_lines: defaultdict[int, list[MeanRate]] = defaultdict(list)
    others: defaultdict[int, list[_LineNumbers]] = defaultdict(list)
    for line in lines_of(records):
        numbers = {number.name: number for number in line}
        rank = line[0].rank or 0
        if is_step_line(line):
            speed = [numbers[name].value for name in ("images_per_sec", "uncertainty", "jitter")]
            step_lines[rank].append(MeanRate(line[0].step or 0, *speed))
        elif not numbers.keys().isdisjoint((*_RATES, _LOSS)):
            others[rank].append(numbers)
    found = step_lines or {rank: _running_means(lines) for rank, lines in others.items()}
    return dict(sorted(found.items()))


def with_ranks(run: list[Record]) -> list[Record]:
    """The run with a rank for each step line of tf_cnn_benchmarks, if steps repeat.

    If ranks are unknown, the k-th repetition of a step is assigned to process k: identities are arbitrary
    then, but each step of each process is counted once.
    """
    if not _repeats_steps(run):
        return run
    repetitions: defaultdict[int | None, int] = defaultdict(int)
    ranks: dict[int, int] = {}
    for line in lines_of(run):
        if line[0].rank is None and is_step_line(line):
            ranks |= {id(number): repetitions[line[0].step] for number in line}
            repetitions[line[0].step] += 1
    if not ranks:
        return run
    return [record._replace(rank=ranks[id(record)]) if id(record) in ranks else record for record in run]


def _repeats_steps(run: Iterable[Record]) -> bool:
    """Whether step lines without a rank may be of several processes."""
    rates = (each for each in run if isinstance(each, Measurement) and each.name == "uncertainty")
    return any(
        later.rank is None and (later.step or 0) <= (earlier.step or 0) for earlier, later in pairwise(rates)
    )


def combined_rates(rates: RatesByRank, ranks: int = 0) -> dict[float, float]:
    """The rate of `ranks` processes (default: those seen) at each step that all seen processes printed."""
    if not rates:
        return {}
    share = (ranks or len(rates)) / len(rates)
    by_step = [{rate.step: rate.images_per_sec for rate in lines} for lines in rates.values()]
    common = set.intersection(*map(set, by_step))
    return {step: share * sum(rate[step] for rate in by_step) for step in sorted(common)}


_LineNumbers = Mapping[str, Measurement]


def _running_means(lines: Sequence[_LineNumbers]) -> list[MeanRate]:
    rates = [_rate(line) for line in lines]
    jitter = _jitter([rate for rate in rates if rate > 0])
    return [MeanRate(*speed, jitter) for speed in _speeds_so_far(_numbers(lines), rates)]


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
