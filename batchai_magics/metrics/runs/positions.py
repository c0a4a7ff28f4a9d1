"""Where each value of a run stands: on the page, in figures, summaries, comparisons and exports alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import repeat
from operator import itemgetter
from typing import Any

from batchai_magics.metrics.column import Column
from batchai_magics.metrics.measurement import FIT
from batchai_magics.metrics.measurement_table import LineColumns, MeasurementTable, Rank
from batchai_magics.metrics.runs.fits import FitHeadings


class Positions:
    """Gives each value of a run the number at which it stands, as values come.

    1. A step: that of the timeline, which continues a counter that starts again with each epoch.
    2. An epoch, but no step: the number of its epoch, alike for all metrics of a rank. A metric with several
       values in an epoch gets several numbers. Where epochs go back, as with another fit, so do the numbers.
    3. Neither: the next number of its metric and rank, from 1 on.
    """

    def __init__(self) -> None:
        self._epochs: defaultdict[Rank, _EpochNumbers] = defaultdict(_EpochNumbers)
        self._headings = FitHeadings()
        self._latest: dict[tuple[str, Rank], int] = {}  # numbers of metrics

    def of(self, table: MeasurementTable) -> MeasurementTable:
        """The next lines of the run, which have the steps of the timeline, with a step for each value."""
        lacking = [lines for lines in table.lines if any(None in steps for steps in lines.steps)]
        headings = ((row, -1, fact) for row, fact in table.facts if fact.key == FIT)
        numbered: list[list[list[int]]] = [[] for _ in lacking]
        for _, place, found in merge(headings, *map(_rows, lacking, range(len(lacking))), key=itemgetter(0)):
            if place < 0:
                self._headings.enter(found)
                continue
            epoch, rank, *steps = found
            names = (metric.name for metric in lacking[place].metrics)
            pairs = zip(names, steps, strict=True)
            numbered[place].append([self._position(step, epoch, name, rank) for name, step in pairs])
        complete = {
            lines.metrics: replace(lines, steps=_columns(rows))
            for lines, rows in zip(lacking, numbered, strict=True)
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


def _rows(lines: LineColumns, place: int) -> Iterator[tuple[int, int, Any]]:
    """Each row, the place of its lines among others, and its epoch, rank and steps."""
    return zip(lines.rows, repeat(place), zip(lines.epochs, lines.ranks, *lines.steps, strict=True))


def _columns(rows: Sequence[Sequence[int]]) -> Sequence[Column]:
    """The steps of each metric; metrics that have the same steps share a column."""
    steps = [*zip(*rows, strict=True)]
    shared = {each: Column(each) for each in {*steps}}
    return [shared[each] for each in steps]


@dataclass(slots=True)
class _EpochNumbers:
    """The last epoch of a rank, its fit and number, and the metrics that have a value there."""

    epoch: float | None = None
    fit: int = 0
    number: int = 0
    names: set[str] = field(default_factory=set)
    firsts: dict[float, int] = field(default_factory=dict)  # the first number of each epoch
    most: int = 0

    def number_of(self, epoch: float, name: str, fit: int) -> int:
        """The number of the next value, from 1 on."""
        if (epoch, fit) != (self.epoch, self.fit):
            self.number = self.firsts.setdefault(epoch, self.most + 1)
            self.epoch, self.fit, self.names = epoch, fit, set()
        elif name in self.names:
            self.number, self.names = self.number + 1, set()
        self.names.add(name)
        self.most = max(self.most, self.number)
        return self.number
