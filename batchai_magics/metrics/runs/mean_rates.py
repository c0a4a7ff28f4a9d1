"""The mean rate of each process up to each of its lines, as printed or from the rates of single lines."""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import pairwise, repeat
from typing import Any, NamedTuple, cast

from batchai_magics.metrics.column import Column
from batchai_magics.metrics.measurement import RATE_UNIT, Measurement, MetricName, Record
from batchai_magics.metrics.measurement_table import LineColumns, MeasurementTable, by_rank
from batchai_magics.metrics.runs.run_starts import RunStarts

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


@dataclass(frozen=True)
class MeanRates(Sequence[MeanRate]):
    """The mean rates of a process in file order, as columns."""

    steps: Sequence[int]
    rates: Sequence[float]
    uncertainties: Sequence[float]
    jitters: Sequence[float]

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[MeanRate]:
        return map(MeanRate, self.steps, self.rates, self.uncertainties, self.jitters)

    def __getitem__(self, index: Any) -> Any:
        make = MeanRates if isinstance(index, slice) else MeanRate
        columns: list[Any] = [self.steps, self.rates, self.uncertainties, self.jitters]
        return make(*(column[index] for column in columns))


RatesByRank = Mapping[int, Sequence[MeanRate]]

MEAN_RATES = ("images_per_sec", "uncertainty", "jitter")
"""The names of a mean rate, its standard error and the scatter of single rates, all in images/sec."""


def has_mean_rates(run: MeasurementTable) -> bool:
    """Whether lines tell the mean rate of all steps so far, as tf_cnn_benchmarks does."""
    return bool(_lines_with_mean_rates(run))


def _lines_with_mean_rates(run: MeasurementTable) -> list[LineColumns]:
    return [lines for lines in run.lines if is_mean_rate(lines.metrics)]


def is_mean_rate(line: Iterable[MetricName | Measurement]) -> bool:
    """Whether the numbers of a line tell a mean rate, which they do only together."""
    return {number.name for number in line if number.unit == RATE_UNIT}.issuperset(MEAN_RATES)


def mean_rates(records: Iterable[Record]) -> RatesByRank:
    """The mean rates of each process of one run, whose ranks are known or numbered: ascending by rank.

    Some programs print them. Others print the rate since the previous line, so a line with a
    rate or a loss has the running mean.
    """
    run = MeasurementTable.of(records)
    means = _lines_with_mean_rates(run)
    printed = ((lines, [lines.steps[0], *map(lines.value, MEAN_RATES)]) for lines in means)
    rates_by_rank: dict[Any, Sequence[MeanRate]] = {
        rank: MeanRates(*columns) for rank, columns in by_rank(printed, unknown=0).items()
    }
    if not means:
        rates = []
        for lines in run.lines:
            name = next((name for name in _RATES if name in lines.names), "")
            if name or _LOSS in lines.names:
                rate = lines.value(name) if name else Column([math.nan] * len(lines.rows))
                rates.append((lines, [lines.steps[0], rate]))
        series = by_rank(rates, unknown=0)
        rates_by_rank = {rank: _running_means(*columns) for rank, columns in series.items()}
    return dict(sorted(rates_by_rank.items()))


def with_ranks(log: MeasurementTable) -> MeasurementTable:
    """The log with a rank for each line with a mean rate, if ranks are unknown and steps repeat."""
    processes = ProcessNumbers()
    processes.add(log)
    return ProcessNumbers(are_numbered=True).add(log) if processes.are_several else log


class ProcessNumbers:
    """Numbers the processes that print mean rates without a rank, as lines come.

    The k-th repetition of a step is assigned to process k: identities are arbitrary then, but each step of
    each process is counted once. Another run may repeat the steps of the one before. `are_several`: steps
    repeat, so lines without a rank may be of several processes. Lines get ranks only with `are_numbered`,
    which declares several processes from the start.
    """

    def __init__(self, *, are_numbered: bool = False) -> None:
        self.are_several = self._are_numbered = are_numbered
        self._starts = RunStarts()
        self._begin_run()

    @property
    def has_moved(self) -> bool:
        """Whether lines that came without a rank are to be numbered."""
        return self.are_several and not self._are_numbered

    def _begin_run(self) -> None:
        self._latest: int | None = None  # step
        self._repetitions: defaultdict[int | None, int] = defaultdict(int)

    def add(self, lines: MeasurementTable) -> MeasurementTable:
        """Add the next lines of the log; gives them with their ranks."""
        first, *others = self._starts.split(lines)
        table = self._add_lines(first)
        for part in others:
            self._begin_run()
            table = table.followed_by(self._add_lines(part))
        return table

    def _add_lines(self, lines: MeasurementTable) -> MeasurementTable:
        """Add the next lines of a run."""
        parts = _lines_with_mean_rates(lines)
        if not any(None in part.ranks for part in parts):
            if parts:
                self._latest = max(parts, key=lambda part: part.rows[-1]).steps[0][-1] or 0
            return lines
        if self._are_numbered:
            return self._numbered(lines, parts)
        for _, step, rank in _in_order(parts):
            is_new = rank is None and self._latest is not None
            self.are_several |= is_new and (step or 0) <= (self._latest or 0)
            self._latest = step or 0
        return lines

    def _numbered(self, lines: MeasurementTable, parts: Sequence[LineColumns]) -> MeasurementTable:
        """The lines with ranks, which some parts may lack."""
        ranks: list[list[int]] = [[] for _ in parts]
        for part_index, step, rank in _in_order(parts):
            ranks[part_index].append(self._repetitions[step] if rank is None else rank)
            self._repetitions[step] += rank is None
        numbered = {id(part): Column(column) for part, column in zip(parts, ranks, strict=True)}
        return lines.with_lines(
            replace(part, ranks=numbered.get(id(part), part.ranks)) for part in lines.lines
        )


def _in_order(parts: Sequence[LineColumns]) -> Iterator[tuple[int, int | None, int | None]]:
    """The lines in file order: the number of their part, their step and rank."""
    columns = (zip(part.rows, repeat(i), part.steps[0], part.ranks) for i, part in enumerate(parts))
    return ((part, step, rank) for _, part, step, rank in merge(*columns))


def combined_rates(rates: RatesByRank, ranks: int = 0) -> dict[float, float]:
    """The rate of `ranks` processes (default: those seen) at each step that all seen processes printed."""
    if not rates:
        return {}
    share = (ranks or len(rates)) / len(rates)
    by_step = [{rate.step: rate.images_per_sec for rate in lines} for lines in rates.values()]
    common = set.intersection(*map(set, by_step))
    return {step: share * sum(rate[step] for rate in by_step) for step in sorted(common)}


def _running_means(steps: Sequence[int | None], rates: Sequence[float]) -> MeanRates:
    """For each line, its step and the mean rate of all steps up to it with its standard error.

    Steps are counted from 1; they are line numbers where some are missing or decrease.
    """
    known = cast("Sequence[int]", steps)
    if None in steps or any(later <= step for step, later in pairwise(known)):
        known = range(1, len(steps) + 1)
    elif known[0] == 0:
        known = [step + 1 for step in known]
    numbers, speeds, errors = array("q", known), array("d"), array("d")
    done, spent, count, total, squares = 0, 0.0, 0, 0.0, 0.0
    for number, rate in zip(numbers, rates, strict=True):
        if not 0 < rate < math.inf:
            speeds.append(math.nan)
            errors.append(math.nan)
            continue
        spent += (number - done) / rate
        done, count, total, squares = number, count + 1, total + rate, squares + rate**2
        speeds.append(number / spent)
        errors.append(math.sqrt(max(0.0, squares / count - (total / count) ** 2) / count))
    # as tf_cnn_benchmarks defines it: 1.4826 times the median absolute deviation
    positive = [rate for rate in rates if rate > 0]
    middle = median(positive)
    jitter = 1.4826 * median([abs(rate - middle) for rate in positive])
    return MeanRates(numbers, speeds, errors, Column([jitter] * len(numbers)))


def median(values: Sequence[float]) -> float:
    """The median; 0 of no values. Importing the standard library's takes 5 ms."""
    ordered = sorted(values) or [0.0]
    middle = len(ordered) // 2
    return (ordered[middle] + ordered[~middle]) / 2
