"""One timeline: the step of every number, counted over the whole run, whichever stream or file told it.

A counter that starts again with each epoch is continued: (epoch - first epoch) x length + step; the length
is the total that is printed beside the steps, or the length of the epochs that have ended. A bar without an
epoch belongs to the epoch of the line that ends it. Where no epoch explains why a counter starts again, its
steps stay: another fit begins there, a segment of its own. So does one where an epoch comes again below the
heading of another fit.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import itemgetter
from typing import cast

from batchai_magics.metrics.column import Column
from batchai_magics.metrics.grammar.metric_names import TRAIN
from batchai_magics.metrics.measurement import LENGTH, Fact, Measurement, MetricName, Record
from batchai_magics.metrics.measurement_table import LineColumns, MeasurementTable, rows_of
from batchai_magics.metrics.runs.fits import FitHeadings


def in_time_order(parts: Sequence[Collection[Record]]) -> Collection[Record]:
    """The records of several files in the order of their times; without times, file by file."""
    found = [part for part in parts if part]
    if len(found) < 2:
        return found[0] if found else ()
    timed = [pair for part in found for pair in zip(_times(part), part, strict=True)]
    return [record for _, record in sorted(timed, key=itemgetter(0))]


def _times(records: Iterable[Record]) -> Iterator[float]:
    """The time up to which each record was written; a record without a time has the previous one's."""
    latest = 0.0
    for record in records:
        latest = max(latest, getattr(record, "wall_time", None) or 0.0)
        yield latest


class Timeline:
    """Places numbers as they come. Numbers that were placed may move when more is known.

    Once all are known, the places are the same, whether the numbers came at once or in parts: `add` tells
    whether earlier ones have moved; then all are placed anew, on another timeline.
    """

    def __init__(self) -> None:
        self._ranks: defaultdict[int | None, _RankTimeline] = defaultdict(_RankTimeline)
        self._learned, self._headings = FitHeadings(), FitHeadings()  # above what was added, and placed

    @property
    def has_steps(self) -> bool:
        """Whether a number has a step."""
        return any(rank.has_steps for rank in self._ranks.values())

    def add(self, rows: Iterable[Sequence[Record]]) -> bool:
        """Learn from more rows of the run: a fact each, or the numbers on a line.

        Returns whether numbers that were placed before stand elsewhere now.
        """
        ranks = {}
        for row in rows:
            first = row[0]
            if not isinstance(first, Fact):
                rank = ranks[first.rank] = self._ranks[first.rank]
                rank.learn(cast("Sequence[Measurement]", row), self._learned.of(first.rank).number)
                continue
            self._learned.enter(first)
            if first.key == LENGTH:
                rank = ranks[first.rank] = self._ranks[first.rank]
                rank.learn_length(first.value)
        return sum(rank.has_moved() for rank in ranks.values()) > 0

    def steps(self, line: Sequence[Measurement]) -> list[int | None]:
        """The steps of the numbers on the next line, which was added; None before the first of its rank."""
        rank = line[0].rank
        timeline, fit = self._ranks[rank], self._headings.of(rank).number
        return [timeline.step(number, fit) for number in line]

    def enter(self, fact: Fact) -> None:
        """Pass a fact that was added, in its turn among the numbers."""
        self._headings.enter(fact)

    def placed(self, number: Measurement) -> Measurement:
        """The next number, with its step."""
        step = self.steps([number])[0]
        return number if step == number.step else number._replace(step=step)


def on_timeline(records: Iterable[Record], above: Iterable[Fact] = ()) -> MeasurementTable:
    """The records of a run, which are in the order of writing, with the steps of the timeline.

    Steps of training without epochs are kept: if there are no others, nothing is placed. How far counters go
    may be told `above` the run.
    """
    run = MeasurementTable.of(records)
    if all(map(_counts_steps, run.lines)):
        return run
    timeline = Timeline()
    timeline.add(rows_of(above))
    timeline.add(rows_of(run))
    steps = {lines.metrics: [Column() for _ in lines.metrics] for lines in run.lines}
    for window in run.windows():
        placed = defaultdict[tuple[MetricName, ...], list[list[int | None]]](list)
        for _, lines, records in window:
            if lines:
                placed[lines.metrics].append(timeline.steps(cast("Sequence[Measurement]", records)))
            else:
                timeline.enter(cast("Fact", records[0]))
        for metrics, rows in placed.items():
            for column, own in zip(steps[metrics], zip(*rows, strict=True), strict=True):
                column.extend(own)
    return run.with_lines(replace(lines, steps=steps[lines.metrics]) for lines in run.lines)


def _counts_steps(lines: LineColumns) -> bool:
    """Whether the lines are of training, with steps over the whole run."""
    is_training = all(metric.phase == TRAIN for metric in lines.metrics)
    return is_training and lines.epochs.is_missing and None not in lines.steps[0]


@dataclass(slots=True)
class _Counter:
    """The steps of one metric without epochs, in rounds: where they go back, the next round begins."""

    last: int = -1
    first: int = 0
    ended: int = 0  # the last step of the rounds that have ended
    ends: list[int] = field(default_factory=list)  # the last step of each round
    total: int = 0  # that is printed beside its steps; 0 if none is

    def add(self, step: int) -> bool:
        """Count a step; whether a round begins with it."""
        begins = not self.ends or step < self.last
        if begins:
            self.ended = max([self.ended, *self.ends[-1:]])
            self.first = min(self.first, step) if self.ends else step
            self.ends.append(step)
        elif step > self.ends[-1]:
            self.ends[-1] = step
        self.last = step
        return begins or 0 < self.total < step

    def length(self, totals: Iterable[int]) -> int:
        """The steps of a round, which may be one of these totals."""
        self.total = _least(totals, max(self.ended, *self.ends))
        return self.total or self.ended + (self.first == 0)


class _Epochs:
    """The steps of training within each epoch."""

    def __init__(self) -> None:
        self.lasts: dict[float, int] = {}
        self.names: set[str] = set()  # of the metrics that are counted
        self._firsts: dict[float, int] = {}
        self._order: list[float] = []
        self._open: float | None = None
        self._least = self._most = 0
        self._ended = 0  # the last step of the epochs that have ended
        self._total = 0  # that is printed beside the steps; 0 if none is
        self._has_gone_back = False

    def __bool__(self) -> bool:
        return bool(self._order)

    @property
    def first(self) -> float:
        """The first epoch."""
        return self._order[0]

    def add(self, name: str, epoch: float, step: int) -> bool:
        """Count a step of a metric; whether it may tell something about the length of epochs."""
        is_known = name in self.names
        if is_known and epoch == self._open and step >= self.lasts[epoch] and self._order[-1] == epoch:
            self.lasts[epoch] = step
            if step > self._most:
                self._most, had_one = step, self._least == self._most
                return had_one or 0 < self._total < step
            return False
        self.names.add(name)
        if epoch != self._open and self._open is not None:
            self._ended = max(self._ended, self.lasts[self._open])
        if epoch not in self.lasts:
            self.lasts[epoch] = self._firsts[epoch] = step
            insort(self._order, epoch)
        self._open = epoch
        self.lasts[epoch], self._firsts[epoch] = max(self.lasts[epoch], step), min(self._firsts[epoch], step)
        is_first = len(self._order) == 1
        self._least = min(self._firsts[epoch], step if is_first else self._least)
        self._most = max(self.lasts[epoch], step if is_first else self._most)
        at = bisect_left(self._order, epoch)
        pairs = pairwise(self._order[max(0, at - 1) : at + 2])
        self._has_gone_back |= any(self._firsts[later] < self.lasts[earlier] for earlier, later in pairs)
        return True

    @property
    def restart_steps(self) -> bool:
        """Whether steps are counted within epochs."""
        return self._has_gone_back or (len(self._order) > 1 and self._least == self._most)

    def length(self, totals: Iterable[int]) -> int:
        """The steps of an epoch, which may be one of these totals."""
        self._total = _least(totals, self._most)
        return self._total or self._ended + (self._least == 0)

    def count_before(self, epoch: float) -> int:
        """The epochs before another one."""
        if float(epoch).is_integer() and float(self.first).is_integer():
            return int(epoch - self.first)
        return bisect_left(self._order, epoch)


def _least(totals: Iterable[int], step: int) -> int:
    """The least of some totals of a counter that a step is not beyond; 0 if there is none."""
    return min((total for total in totals if total >= step), default=0)


@dataclass(slots=True)
class _Scan:
    """Where the numbers of a rank that were placed have come to."""

    latest: int | None = None
    rounds: dict[str, tuple[int, int]] = field(default_factory=dict)  # of a metric: its round and last step
    visit: int = -1  # of an epoch, by lines that have no step
    epoch: tuple[int, float] | None = None  # with its fit
    ends: dict[int, int] = field(default_factory=dict)  # where lines without a step stand, by visit


class _RankTimeline:
    """The places of one rank's numbers."""

    def __init__(self) -> None:
        self._epochs = _Epochs()
        self._counters: defaultdict[str, _Counter] = defaultdict(_Counter)  # of training, without epochs
        self._measured: defaultdict[str, _Counter] = defaultdict(_Counter)  # of validation and test
        self._visits: list[float] = []  # whole epochs of lines without a step, in turn
        self._visited_fit = 0  # of the last visit
        self._seen: dict[str, int] = {}  # the last visit of a metric
        self._repeated: set[str] = set()  # metrics with several values in one visit
        self._ended: set[float] = set()  # epochs that bars have from the line which ended the bar before
        self._totals: defaultdict[str, set[int]] = defaultdict(set)  # of counters, by the metric beside them
        self._scan = _Scan()
        self._is_undecided = True
        self._is_by_epoch = False  # steps are counted within epochs
        self._epoch_length = self._round_length = 0
        self._first_visit = math.inf
        self._returning: set[str] = set()  # metrics of validation whose batches are counted
        self._round_epochs: tuple[float | None, ...] = ()
        self._known: tuple[object, ...] = ()

    @property
    def has_steps(self) -> bool:
        """Whether a number has a step."""
        return bool(self._epochs or self._counters or self._measured)

    def learn(self, line: Iterable[Measurement], fit: int) -> None:
        """Take what the numbers on a line tell about the counters."""
        for name, _, _, step, epoch, _, _, _, phase in line:
            if step is None:
                if epoch is not None and float(epoch).is_integer():
                    self._visit(name, epoch, fit)
            elif phase != TRAIN:
                if self._measured[name].add(step) and len(self._measured[name].ends) > 1:
                    self._returning.add(name)
                    self._is_undecided = True
            elif epoch is None or self._learns_late(name, epoch):
                self._is_undecided |= self._counters[name].add(step)
            else:
                self._is_undecided |= self._epochs.add(name, epoch, step)

    def learn_length(self, length: str) -> None:
        """Take how far a counter goes, and the metric beside it: `40 loss`."""
        total, _, name = length.partition(" ")
        self._totals[name].add(int(total.replace(",", "")))
        self._is_undecided = True

    def _learns_late(self, name: str, epoch: float) -> bool:
        """Whether a bar has its epoch only from the line above, which ended the round before."""
        is_ended = self._visits[-1:] == [epoch] and epoch not in self._epochs.lasts
        if is_ended and name in self._counters:
            self._ended.add(epoch)
        return self._is_late(name, epoch)

    def _is_late(self, name: str, epoch: float) -> bool:
        return epoch in self._ended and name in self._counters

    def _visit(self, name: str, epoch: float, fit: int) -> None:
        if not self._visits or (self._visits[-1], self._visited_fit) != (epoch, fit):
            self._visits.append(epoch)
            self._visited_fit = fit
            self._first_visit = min(self._first_visit, epoch)
            self._is_undecided = True
        elif self._seen.get(name) == len(self._visits):
            self._repeated.add(name)
            self._is_undecided = True
        self._seen[name] = len(self._visits)

    def has_moved(self) -> bool:
        """Whether numbers that were placed stand elsewhere, since this was last asked."""
        is_other = self._is_undecided and self._decide()
        ends = ((self._end_of(visit), placed) for visit, placed in self._scan.ends.items())
        return is_other or any(end not in (None, placed) for end, placed in ends)

    def _decide(self) -> bool:
        """Derive from what was learned where numbers stand; whether some that were placed have moved."""
        before, rounds = self._known, self._round_epochs
        self._is_undecided = False
        self._is_by_epoch = self._epochs.restart_steps
        of_epochs = (total for name in self._epochs.names for total in self._totals.get(name, ()))
        self._epoch_length = self._epochs.length(of_epochs) if self._is_by_epoch else 0
        again = {name: counter for name, counter in self._counters.items() if len(counter.ends) > 1}
        lengths = (counter.length(self._totals.get(name, ())) for name, counter in again.items())
        self._round_length = max(lengths, default=0)
        self._round_epochs = self._epochs_of_rounds()
        first = self._epochs.first if self._is_by_epoch else self._first_visit if again else 0.0
        places = self._epoch_length, self._round_length, first
        self._known = (self._is_by_epoch, *places, len(self._returning), len(self._repeated))
        return bool(before) and (before != self._known or rounds != self._round_epochs[: len(rounds)])

    def _epochs_of_rounds(self) -> tuple[float | None, ...]:
        """The epoch of each round of the counters, from the line that ends it; None if it is unknown."""
        count = max((len(counter.ends) for counter in self._counters.values()), default=0)
        visits = self._visits[:count]
        if count < 2 or len(visits) < count - 1:  # lines end only some of them
            return (None,) * count
        return tuple(visits) if len(visits) == count else (*visits, visits[-1] + 1)

    def step(self, number: Measurement, fit: int) -> int | None:
        """The step of the next number."""
        step = number.step
        if step is None:
            return self._step_of_line(number, fit)
        if number.phase != TRAIN and (self._epochs or self._counters):
            return self._step_of_measure(number, step)
        if number.epoch is None or self._is_late(number.name, number.epoch):
            place = self._step_in_round(number.name, step)
        else:
            place = self._step_in_epoch(number.epoch, step)
        self._scan.latest = place
        return place

    def _step_in_epoch(self, epoch: float | None, step: int) -> int:
        return step + self._begin_of(epoch) if self._is_by_epoch and epoch is not None else step

    def _begin_of(self, epoch: float) -> int:
        """The steps before an epoch."""
        return self._epochs.count_before(epoch) * self._epoch_length

    def _step_in_round(self, name: str, step: int) -> int:
        number, last = self._scan.rounds.get(name, (0, -1))
        number += step < last
        self._scan.rounds[name] = number, step
        return step + self._begin_of_round(number) if number else step

    def _begin_of_round(self, number: int) -> int:
        epoch = self._round_epochs[number] if number < len(self._round_epochs) else None
        return 0 if epoch is None else int(epoch - self._first_visit) * self._round_length

    def _step_of_measure(self, number: Measurement, step: int) -> int | None:
        """The step of a validation: where training was, if its batches are counted."""
        latest = self._scan.latest
        if number.epoch is None:
            return latest if number.name in self._returning and latest is not None else step
        return max(self._step_in_epoch(number.epoch, step), latest or 0)

    def _step_of_line(self, number: Measurement, fit: int) -> int | None:
        """The step of a number without one: the last of its epoch, if the line ends it; else the latest."""
        scan, epoch = self._scan, number.epoch
        if epoch is None or not float(epoch).is_integer():
            return scan.latest
        if (fit, epoch) != scan.epoch:
            scan.epoch, scan.visit = (fit, epoch), scan.visit + 1
        if number.name in self._repeated:
            return scan.latest
        end = self._end_of(scan.visit)
        place = scan.latest if end is None else end
        if place is not None:
            before = {scan.visit - 1: scan.ends.get(scan.visit - 1, place)} if scan.visit else {}
            scan.ends = {**before, scan.visit: place}
        return place

    def _end_of(self, visit: int) -> int | None:
        """The last step of the epoch that lines without a step visit."""
        if self._is_by_epoch and visit < len(self._visits):
            last = self._epochs.lasts.get(self._visits[visit])
            return None if last is None else self._begin_of(self._visits[visit]) + last
        if visit >= len(self._round_epochs) or self._round_epochs[visit] is None:
            return None
        again = [counter.ends for counter in self._counters.values() if len(counter.ends) > max(1, visit)]
        return max((self._begin_of_round(visit) + ends[visit] for ends in again), default=None)


@dataclass(slots=True)
class _EpochPosition:
    """The last epoch of a rank, its fit and number, and the metrics that have a value there."""

    epoch: float | None = None
    fit: int = 0
    number: int = 0
    names: set[str] = field(default_factory=set)
    firsts: dict[float, int] = field(default_factory=dict)  # the first number of each epoch
    most: int = 0


class EpochCounter:
    """Numbers the points of a log that tells epochs but no steps, alike for all metrics.

    The metrics of one epoch share a number; a metric with several values in an epoch gets several numbers.
    Where epochs go back or repeat, as with another fit, so do the numbers.
    """

    def __init__(self) -> None:
        self._ranks: dict[int | None, _EpochPosition] = {}

    def number(self, rank: int | None, epoch: float, name: str, fit: int = 0) -> int:
        """The number of the next value of a metric in a fit of its rank, from 1 on."""
        last = self._ranks.setdefault(rank, _EpochPosition())
        if (epoch, fit) != (last.epoch, last.fit):
            last.number = last.firsts.setdefault(epoch, last.most + 1)
            last.epoch, last.fit, last.names = epoch, fit, set()
        elif name in last.names:
            last.number, last.names = last.number + 1, set()
        last.names.add(name)
        last.most = max(last.most, last.number)
        return last.number
