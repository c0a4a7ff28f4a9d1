"""The position of each value of a run: the same in the page, figures, summaries, comparisons and exports."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from batchai_magics.metrics.measurement import ATTEMPT, Fact, Measurement, Record
from batchai_magics.metrics.measurement_table import MeasurementTable, Rank
from batchai_magics.metrics.runs.fits import NO_FIT
from batchai_magics.metrics.runs.number_frames import numbers
from batchai_magics.metrics.runs.timeline import LineRun, RunSteps, Timeline, line_runs, with_steps
from batchai_magics.models.runs.scalar_export import ScalarPoint

AXES = ("step", "epoch", "time")
"""The x axes of a chart: steps over the whole run, epochs, seconds since the first number."""

ORDER = "order"
"""The axis of a run whose log tells no position: its values are numbered."""

_MAX_EPOCH = 1 << 53  # beyond this, a number is not taken for an epoch


class Positions:
    """Assigns each value of a run its position, a whole number, incrementally.

    1. A step on the timeline, which continues a counter that starts again with each epoch.
    2. An epoch, but no step: the epoch (a fraction is rounded up), alike for all metrics of a rank. Further
       values of a metric in that epoch are counted on, and later epochs are behind them: values of the epochs
       3, 4, 4, 5 stand at 3, 4, 5, 6. Where epochs go back, as with another fit, so do the numbers. Another
       attempt repeats the epoch in which the one before ended.
    3. Neither: the next number of its metric and rank, from 1 on.
    """

    def __init__(self) -> None:
        self._epochs: defaultdict[Rank, _EpochNumbers] = defaultdict(_EpochNumbers)
        self._latest: defaultdict[tuple[str, Rank], int] = defaultdict(int)  # numbers of metrics
        self._kinds: set[str] = set()  # of the positions of the run

    @property
    def axis(self) -> str:
        """The x axis that suits the run: epochs if they place all its values, ORDER if nothing does."""
        return next(iter(self._kinds)) if len(self._kinds) == 1 else AXES[0]

    def of(self, table: MeasurementTable) -> MeasurementTable:
        """The next lines of the run, which have the steps of the timeline, with a step for each value."""
        if any(not steps.is_missing for lines in table.lines for steps in lines.steps):
            self._kinds.add(AXES[0])
        lacking = table.with_lines(
            lines for lines in table.lines if any(None in steps for steps in lines.steps)
        )
        parts = ((part, self._steps_of(part)) for part in lacking.parts(ATTEMPT))
        complete = {lines.metrics: lines for lines in with_steps(lacking, parts).lines}
        return table.with_lines(complete.get(lines.metrics, lines) for lines in table.lines)

    def count(self, name: str, rank: Rank) -> int:
        """The number of the next value of a metric that has neither a step nor an epoch."""
        self._latest[name, rank] += 1
        return self._latest[name, rank]

    def _steps_of(self, part: MeasurementTable) -> Iterator[RunSteps]:
        if any(fact.key == ATTEMPT for _, fact in part.facts):
            for numbers in self._epochs.values():
                numbers.leave()
        for run in line_runs(part):
            columns = {id(column): column.at(run.indices) for column in run.lines.steps}
            steps = [columns[id(column)] for column in run.lines.steps]
            if all(column.count(None) in (0, len(column)) for column in steps):
                yield run, self._completed(run, steps)
            else:
                lines = (self._completed(run, [[step] for step in line]) for line in zip(*steps, strict=True))
                yield run, [[*chain.from_iterable(parts)] for parts in zip(*lines, strict=True)]

    def _completed(
        self, run: LineRun, steps: Sequence[Sequence[int | None]]
    ) -> Sequence[Sequence[int | None]]:
        """The steps of each metric of some lines of a run, which all have steps or none."""
        names = [
            metric.name
            for metric, metric_steps in zip(run.lines.metrics, steps, strict=True)
            if metric_steps[0] is None
        ]
        count = len(steps[0])
        firsts: Sequence[int]
        if run.epoch is None:
            firsts = [self._latest[name, run.rank] + 1 for name in names]
        else:
            firsts = self._epochs[run.rank].numbers_of(run.epoch, names, run.fit, count)
        if names:
            self._kinds.add(ORDER if run.epoch is None else AXES[1])
        for name, first in zip(names, firsts, strict=True):
            self._latest[name, run.rank] = first + count - 1
        ranges = {first: range(first, first + count) for first in firsts}
        numbers = iter(firsts)
        return [ranges[next(numbers)] if metric_steps[0] is None else metric_steps for metric_steps in steps]


class MetricPoints:
    """Converts records to points as they arrive; the steps of a series only increase.

    Where a position goes back, or repeats below the heading of another fit, its steps go on behind those
    before; an attempt repeats those of the previous one. Numbers without a time get the last known one.
    """

    def __init__(self, started: float) -> None:
        self._time = started
        self._timeline, self._positions = Timeline(), Positions()
        self._shifts: dict[tuple[str, Rank], tuple[int, int, int]] = {}  # last step, what is added, fit
        self._repeatable = set[tuple[str, Rank]]()  # series without a point of the latest attempt

    def of(self, records: Iterable[Record]) -> Iterator[ScalarPoint]:
        """Yields the points of the next records."""
        table = self._positions.of(self._timeline.add(records))
        fits = dict(chain.from_iterable(zip(lines.rows, lines.fits, strict=True) for lines in table.lines))
        for row, records_of_row in table.rows():
            if isinstance(records_of_row[0], Fact) and records_of_row[0].key == ATTEMPT:
                self._repeatable = {*self._shifts}
            for number in numbers(records_of_row):
                self._time = self._time if number.wall_time is None else number.wall_time
                step = self._step_of(number, fits.get(row, NO_FIT))
                yield ScalarPoint(number.name, number.value, step, self._time, number.rank)

    def _step_of(self, number: Measurement, fit: int) -> int:
        """The step of the next point of a series."""
        series = (number.name, number.rank)
        step = self._positions.count(*series) if number.step is None else number.step
        last, shift, last_fit = self._shifts.get(series, (step, 0, fit))
        is_repeatable = series in self._repeatable
        self._repeatable.discard(series)
        if step > last or (is_repeatable and fit < last_fit):
            shift = 0  # the epoch of a counter that went back is known now, or an attempt starts anew
        elif step + shift < last + (fit != last_fit) and not (is_repeatable and fit == last_fit):
            shift = last + 1 - step
        self._shifts[series] = step + shift, shift, fit
        return step + shift

    def now(self) -> None:
        """Assign the current time to numbers that come without one."""
        self._time = time.time()


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

    def numbers_of(self, epoch: float, names: Sequence[str], fit: int, count: int) -> Sequence[int]:
        """The numbers of metrics on the first of the next lines; they count on from line to line."""
        numbers = [self._number_of(epoch, name, fit) for name in names]
        if count > 1:
            self._number += count - 2
            for name in names:
                self._number_of(epoch, name, fit)
        return numbers

    def _number_of(self, epoch: float, name: str, fit: int) -> int:
        if (epoch, fit) != (self._epoch, self._fit):
            if epoch not in self._firsts:
                number = math.ceil(epoch) if abs(epoch) < _MAX_EPOCH else 1
                at = bisect_left(self._order, epoch)
                if at:  # after all values of the epoch before it
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
        """Treat the next value as the first one in its epoch."""
        self._epoch, self._names = None, set()
