"""Where each value of a run stands: on the page, in figures, summaries, comparisons and exports alike."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import repeat
from operator import itemgetter
from typing import Any

from batchai_magics.metrics.column import Column
from batchai_magics.metrics.measurement import ATTEMPT, FIT
from batchai_magics.metrics.measurement_table import MeasurementTable, Rank
from batchai_magics.metrics.runs.fits import FitHeadings

_MAX_EPOCH = 1 << 53  # what is beyond is no epoch that anybody counts to


class Positions:
    """Gives each value of a run the number at which it stands, as values come.

    1. A step: that of the timeline, which continues a counter that starts again with each epoch.
    2. An epoch, but no step: the epoch (a fraction is rounded up), alike for all metrics of a rank. Further
       values of a metric in that epoch are counted on, and later epochs are behind them: values of the epochs
       3, 4, 4, 5 stand at 3, 4, 5, 6. Where epochs go back, as with another fit, so do the numbers. Another
       attempt repeats the epoch in which the one before ended.
    3. Neither: the next number of its metric and rank, from 1 on.
    """

    def __init__(self) -> None:
        self._epochs: defaultdict[Rank, _EpochNumbers] = defaultdict(_EpochNumbers)
        self._headings = FitHeadings()
        self._latest: dict[tuple[str, Rank], int] = {}  # numbers of metrics

    def of(self, table: MeasurementTable) -> MeasurementTable:
        """The next lines of the run, which have the steps of the timeline, with a step for each value."""
        lacking = [lines for lines in table.lines if any(None in steps for steps in lines.steps)]
        facts = ((row, -1, fact) for row, fact in table.facts if fact.key in (ATTEMPT, FIT))
        rows: Iterator[Iterator[tuple[int, int, Any]]] = (
            zip(lines.rows, repeat(place), zip(lines.epochs, lines.ranks, *lines.steps, strict=True))
            for place, lines in enumerate(lacking)
        )
        numbered: list[list[list[int]]] = [[] for _ in lacking]
        for _, place, found in merge(facts, *rows, key=itemgetter(0)):
            if place < 0:
                self._headings.enter(found)
                if found.key == ATTEMPT:
                    for numbers in self._epochs.values():
                        numbers.leave()
                continue
            epoch, rank, *steps = found
            names = (metric.name for metric in lacking[place].metrics)
            pairs = zip(names, steps, strict=True)
            numbered[place].append([self._position(step, epoch, name, rank) for name, step in pairs])
        complete = {
            lines.metrics: replace(lines, steps=_columns(own))
            for lines, own in zip(lacking, numbered, strict=True)
        }
        return table.with_lines(complete.get(lines.metrics, lines) for lines in table.lines)

    def _position(self, step: int | None, epoch: float | None, name: str, rank: Rank) -> int:
        if step is not None:
            return step
        if epoch is None:
            return self.count(name, rank)
        fit = self._headings.of(rank).number
        number = self._latest[name, rank] = self._epochs[rank].number_of(epoch, name, fit)
        return number

    def count(self, name: str, rank: Rank) -> int:
        """The number of the next value of a metric that has neither a step nor an epoch."""
        number = self._latest[name, rank] = self._latest.get((name, rank), 0) + 1
        return number


def _columns(rows: Sequence[Sequence[int]]) -> Sequence[Column]:
    """The steps of each metric; metrics that have the same steps share a column."""
    steps = [*zip(*rows, strict=True)]
    shared = {each: Column(each) for each in {*steps}}
    return [shared[each] for each in steps]


@dataclass(slots=True)
class _EpochNumbers:
    """The numbers of a rank's epochs, each with those of the values in it."""

    _epoch: float | None = None  # the last one, its fit, its number, the metrics that have a value there
    _fit: int = 0
    _number: int = 0
    _names: set[str] = field(default_factory=set)
    _order: list[float] = field(default_factory=list)  # all epochs, ascending
    _firsts: dict[float, int] = field(default_factory=dict)  # the first and the last number of each
    _lasts: dict[float, int] = field(default_factory=dict)

    def number_of(self, epoch: float, name: str, fit: int) -> int:
        """The number of the next value of a metric."""
        if (epoch, fit) != (self._epoch, self._fit):
            if epoch not in self._firsts:
                number = math.ceil(epoch) if abs(epoch) < _MAX_EPOCH else 1
                at = bisect_left(self._order, epoch)
                if at:  # it is behind all values of the epoch before it
                    number = max(number, self._lasts[self._order[at - 1]] + 1)
                self._order.insert(at, epoch)
                self._firsts[epoch] = self._lasts[epoch] = number
            number = self._firsts[epoch]
            if self._epoch is not None and epoch > self._epoch:
                number = max(number, self._number + 1)  # more values than in the fit before
            self._number = self._firsts[epoch] = number
            self._epoch, self._fit, self._names = epoch, fit, set()
        elif name in self._names:
            self._number, self._names = self._number + 1, set()
        self._names.add(name)
        self._lasts[epoch] = max(self._lasts[epoch], self._number)
        return self._number

    def leave(self) -> None:
        """Let the next value be the first one in its epoch."""
        self._epoch, self._names = None, set()
