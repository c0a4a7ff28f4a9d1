"""One timeline: the step of every number, counted over the whole run, whichever stream or file told it.

A counter that starts again with each epoch is continued: (epoch - first epoch) x length + step; the length
is the total that is printed beside the steps, or the length of the epochs that have ended. A bar without an
epoch belongs to the epoch of the line that ends it. Where no epoch explains why a counter starts again, its
steps stay: another fit begins there, a segment of its own. So does one where an epoch comes again below the
heading of another fit. Each attempt of a job counts its rounds and epochs anew, and knows how long they were
before.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice, pairwise
from operator import is_, itemgetter, le, lt
from typing import NamedTuple, cast

from batchai_magics.metrics.column import Column
from batchai_magics.metrics.grammar.metric_names import TRAIN
from batchai_magics.metrics.measurement import ATTEMPT, LENGTH, Fact, MetricName, Record
from batchai_magics.metrics.measurement_table import LineColumns, MeasurementTable, Rank, indices_by_rank
from batchai_magics.metrics.runs.fits import FitHeadings


class Timeline:
    """Assigns steps to the numbers of a run, incrementally. They may change when more is known.

    `has_moved`: some have changed, so that all are to be added again, to another timeline. How the numbers
    were split into parts does not matter. Facts `above` tell how far counters go.
    """

    def __init__(self, above: Iterable[Fact] = ()) -> None:
        self.has_moved = False
        self._attempts: list[dict[Rank, _RankTimeline]] = [{}]
        self._headings = FitHeadings()
        self._learn_lengths(above)

    @property
    def fit_names(self) -> Sequence[str]:
        """The names of the fits so far, by their numbers."""
        return self._headings.names

    def add(self, records: Iterable[Record]) -> MeasurementTable:
        """Add the next records of the run; gives them with their fits and the steps of the timeline."""
        table = self._headings.marked(MeasurementTable.of(records))
        first, learning = len(self._attempts) - 1, set[Rank]()
        for part in table.parts(ATTEMPT):
            self._attempts += [{} for _ in range(begins_attempt(part))]
            self._learn_lengths(fact for _, fact in part.facts)
            for run in line_runs(part):
                self._of_rank(run.rank).learn(run)
                learning.add(run.rank)
        ranks = (ranks[rank] for ranks in self._attempts for rank in learning if rank in ranks)
        self.has_moved |= sum(rank.has_moved() for rank in ranks) > 0
        return with_steps(table, self._steps_of_parts(table, first))

    def _steps_of_parts(
        self, table: MeasurementTable, attempt: int
    ) -> Iterator[tuple[MeasurementTable, Iterable[RunSteps]]]:
        for part in table.parts(ATTEMPT):
            attempt += begins_attempt(part)
            ranks = self._attempts[attempt]
            yield part, ((run, ranks[run.rank].steps_of(run)) for run in line_runs(part))

    def _of_rank(self, rank: Rank) -> _RankTimeline:
        """The timeline of a rank in the latest attempt."""
        *earlier, latest = self._attempts
        if rank not in latest:
            before = next((ranks[rank] for ranks in reversed(earlier) if rank in ranks), None)
            latest[rank] = _RankTimeline(before)
        return latest[rank]

    def _learn_lengths(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            if fact.key == LENGTH:
                self._of_rank(fact.rank).learn_length(fact.value)


def begins_attempt(part: MeasurementTable) -> bool:
    """Whether another attempt begins with one of the `parts(ATTEMPT)` of a table."""
    return any(fact.key == ATTEMPT for _, fact in part.facts)


class LineRun(NamedTuple):
    """Lines of a rank that follow each other, with the same metrics, fit and epoch, whose steps never fall.

    `indices` are those of the lines among `lines`, `steps` those of their first metric.
    """

    rank: Rank
    lines: LineColumns
    indices: Sequence[int]
    fit: int
    epoch: float | None
    steps: Sequence[int | None]


def line_runs(table: MeasurementTable) -> Iterator[LineRun]:
    """The lines of a table, each rank's in file order; neighbours with the same metrics are together."""
    by_rank: defaultdict[Rank, list[tuple[LineColumns, Sequence[int]]]] = defaultdict(list)
    for lines in table.lines:
        for rank, indices in indices_by_rank(lines.ranks).items():
            by_rank[rank].append((lines, indices))
    for rank, parts in by_rank.items():
        if len(parts) == 1:
            yield from _rising(rank, *parts[0])
            continue
        order = sorted(
            (row, number, index)
            for number, (lines, indices) in enumerate(parts)
            for row, index in zip(lines.rows.take(indices), indices, strict=True)
        )
        for number, turn in groupby(order, key=itemgetter(1)):
            yield from _rising(rank, parts[number][0], [index for *_, index in turn])


def _rising(rank: Rank, lines: LineColumns, indices: Sequence[int]) -> Iterator[LineRun]:
    """Split consecutive lines into runs, within which neither the epoch changes nor a step falls.

    A line with numbers of both training and validation is a run of its own: one may take the other's step.
    """
    steps = lines.steps[0].at(indices)
    is_mixed = len({metric.phase == TRAIN for metric in lines.metrics}) > 1
    is_one = lines.epochs.is_constant and lines.fits.is_constant
    if is_one and never_falls(steps) and not is_mixed:
        yield LineRun(rank, lines, indices, lines.fits[0], lines.epochs[0], steps)
        return
    groups = [*zip(lines.fits.at(indices), lines.epochs.at(indices), strict=True)]
    begins = [0]
    for at, ((group, step), (later_group, later)) in enumerate(pairwise(zip(groups, steps, strict=True)), 1):
        rises = step is later if step is None or later is None else step <= later
        if is_mixed or group != later_group or not rises:
            begins.append(at)
    for begin, end in pairwise([*begins, len(steps)]):
        yield LineRun(rank, lines, indices[begin:end], *groups[begin], steps[begin:end])


def never_falls(steps: Sequence[int | None]) -> bool:
    """Whether no step is below the one before: all are known, or none is."""
    if None in steps:
        return all(step is None for step in steps)
    known = cast("Sequence[int]", steps)
    return all(map(le, known, islice(known, 1, None)))


RunSteps = tuple[LineRun, Sequence[Sequence[int | None]]]
"""Some lines, and the steps of each of their metrics."""


def with_steps(
    table: MeasurementTable, parts: Iterable[tuple[MeasurementTable, Iterable[RunSteps]]]
) -> MeasurementTable:
    """The table with new steps, given part by part."""
    columns = {lines.metrics: list[Sequence[Column]]() for lines in table.lines}
    for part, placed in parts:
        pieces = {lines.metrics: list[RunSteps]() for lines in part.lines}
        for piece in placed:
            pieces[piece[0].lines.metrics].append(piece)
        for metrics, metric_pieces in pieces.items():
            columns[metrics].append(_by_metric(metric_pieces))
    return table.with_lines(replace(lines, steps=_joined(columns[lines.metrics])) for lines in table.lines)


def _by_metric(pieces: Sequence[RunSteps]) -> Sequence[Column]:
    """The steps of each metric of all lines; metrics that have the same steps share a column."""
    lines = pieces[0][0].lines
    shared: dict[tuple[int, ...], Column] = {}
    columns = []
    for metric_steps in zip(*(steps for _, steps in pieces), strict=True):
        if all(map(is_, metric_steps, (run.steps for run, _ in pieces))):
            columns.append(lines.steps[0])
            continue
        key = tuple(map(id, metric_steps))
        if key not in shared:
            placed: list[int | None] = [None] * len(lines.rows)
            for (run, _), steps in zip(pieces, metric_steps, strict=True):
                for index, step in zip(run.indices, steps, strict=True):
                    placed[index] = step
            shared[key] = Column(placed)
        columns.append(shared[key])
    return columns


def _joined(parts: Sequence[Sequence[Column]]) -> Sequence[Column]:
    """The columns of each metric, joined; metrics that share columns still share them."""
    if len(parts) == 1:
        return parts[0]
    shared: dict[tuple[int, ...], Column] = {}
    columns = []
    for metric_parts in zip(*parts, strict=True):
        key = tuple(map(id, metric_parts))
        if key not in shared:
            column = shared[key] = Column()
            for part in metric_parts:
                column.extend(part)
        columns.append(shared[key])
    return columns


@dataclass(slots=True)
class _StepRounds:
    """The steps of one metric without epochs, in rounds: where they go back, the next round begins."""

    first: int = 0  # the least step of all rounds
    ended: int = 0  # the last step of the rounds that have ended
    ends: list[int] = field(default_factory=list)  # the last step of each round
    begin: int = 0  # the first step of the first round

    def add(self, step: int) -> None:
        """Count a step."""
        if self.ends and step >= self.ends[-1]:
            self.ends[-1] = step
            return
        self.begin = self.begin if self.ends else step
        self.first = min(self.first, step) if self.ends else step
        self.ended = max([self.ended, *self.ends[-1:]])
        self.ends.append(step)

    @property
    def has_returned(self) -> bool:
        """Whether there are several rounds."""
        return len(self.ends) > 1

    def length(self, totals: Iterable[int]) -> int:
        """The steps of one of several rounds, which may be one of these totals."""
        return _least(totals, max(self.ended, self.ends[-1])) or self.ended + (self.first == 0)


class _Epochs:
    """The steps of training within each epoch."""

    def __init__(self) -> None:
        self.lasts: dict[float, int] = {}
        self.names: set[str] = set()  # of the metrics that are counted
        self._firsts: dict[float, int] = {}
        self._order: list[float] = []
        self.late_count = 0  # epochs that came after a later one, whose number among all has changed
        self._open: float | None = None
        self._least = self._most = 0
        self._ended = 0  # the last step of the epochs that have ended
        self._has_gone_back = False

    def __bool__(self) -> bool:
        return bool(self._order)

    @property
    def first(self) -> float:
        """The first epoch."""
        return self._order[0]

    def add(self, name: str, epoch: float, step: int) -> None:
        """Count a step of a metric."""
        self.names.add(name)
        if epoch != self._open and self._open is not None:
            self._ended = max(self._ended, self.lasts[self._open])
        if epoch not in self.lasts:
            self.lasts[epoch] = self._firsts[epoch] = step
            insort(self._order, epoch)
            self.late_count += self._order[-1] != epoch
        self._open = epoch
        self.lasts[epoch], self._firsts[epoch] = max(self.lasts[epoch], step), min(self._firsts[epoch], step)
        is_first = len(self._order) == 1
        self._least = min(self._firsts[epoch], step if is_first else self._least)
        self._most = max(self.lasts[epoch], step if is_first else self._most)
        at = bisect_left(self._order, epoch)
        pairs = pairwise(self._order[max(0, at - 1) : at + 2])
        self._has_gone_back |= any(self._firsts[later] < self.lasts[earlier] for earlier, later in pairs)

    @property
    def restart_steps(self) -> bool:
        """Whether steps are counted within epochs."""
        return self._has_gone_back or (len(self._order) > 1 and self._least == self._most)

    def length(self, totals: Iterable[int]) -> int:
        """The steps of an epoch, which may be one of these totals."""
        return _least(totals, self._most) or self._ended + (self._least == 0)

    def count_before(self, epoch: float) -> int:
        """The epochs before another one."""
        if float(epoch).is_integer() and float(self.first).is_integer():
            return int(epoch - self.first)
        return bisect_left(self._order, epoch)


def _least(totals: Iterable[int], step: int) -> int:
    """The least total of a counter that is not below a step; 0 if there is none."""
    return min((total for total in totals if total >= step), default=0)


@dataclass(slots=True)
class _Scan:
    """The position up to which the numbers of a rank have steps."""

    latest: int | None = None
    rounds: dict[str, tuple[int, int]] = field(default_factory=dict)  # of a metric: its round and last step
    visit: int = -1  # of an epoch, by lines that have no step
    epoch: tuple[int, float] | None = None  # with its fit
    ends: dict[int, int] = field(default_factory=dict)  # the step of lines that print none, by visit


class _RankTimeline:
    """The steps of one rank's numbers in an attempt; `before` is its timeline in the previous one."""

    def __init__(self, before: _RankTimeline | None = None) -> None:
        self._before = before
        self._epochs: _Epochs = before._epochs if before else _Epochs()
        self._training_rounds: defaultdict[str, _StepRounds] = defaultdict(_StepRounds)
        self._evaluation_rounds: defaultdict[str, _StepRounds] = defaultdict(_StepRounds)
        self._visits: list[float] = []  # whole epochs of lines without a step, in order
        self._visited_fit = 0  # of the last visit
        self._seen: dict[str, int] = {}  # the last visit of a metric
        self._repeated: set[str] = set()  # metrics with several values in one visit
        self._ended: set[float] = set()  # epochs that bars have from the line which ended the bar before
        # totals of counters, by the metric beside them
        self._totals: defaultdict[str, set[int]] = before._totals if before else defaultdict(set)
        self._scan: _Scan | None = None
        self._is_by_epoch = False  # steps are counted within epochs
        self._epoch_length = self._round_length = 0
        self._first_visit = math.inf
        self._round_epochs: tuple[float | None, ...] = ()
        self._known: tuple[object, ...] = ()

    @property
    def _is_trained(self) -> bool:
        """Whether a number of training has a step; until then, steps of validation count for the run."""
        is_trained = bool(self._epochs or self._training_rounds)
        return is_trained or (self._before is not None and self._before._is_trained)

    @property
    def _are_rounds_explained(self) -> bool:
        """Whether its rounds, or those of an earlier attempt, are known to be epochs."""
        is_known = any(epoch is not None for epoch in self._round_epochs)
        return is_known or (self._before is not None and self._before._are_rounds_explained)

    @property
    def _least_rounds(self) -> int:
        """How many rounds show that they are epochs: the attempt before may have the first ones."""
        before = self._before
        return 1 if before and (before._are_rounds_explained or self._rounds_before) else 2

    @property
    def _rounds_before(self) -> dict[str, _StepRounds]:
        """The rounds before of metrics whose counter starts again with a later epoch."""
        before = self._before
        if not (before and self._visits and before._visits and self._visits[0] > before._visits[0]):
            return {}
        return {
            name: before._training_rounds[name]
            for name, rounds in self._training_rounds.items()
            if name in before._training_rounds and rounds.begin <= before._training_rounds[name].first
        }

    def learn(self, run: LineRun) -> None:
        """Update the counters from the first and last line of a run; those between tell nothing new."""
        for step in (run.steps[0], run.steps[-1])[: len(run.steps)]:
            for metric in run.lines.metrics:
                self._learn(metric, step, run.epoch, run.fit)

    def _learn(self, metric: MetricName, step: int | None, epoch: float | None, fit: int) -> None:
        name = metric.name
        if step is None:
            if epoch is not None and float(epoch).is_integer():
                if not self._visits or (self._visits[-1], self._visited_fit) != (epoch, fit):
                    self._visits.append(epoch)
                    self._visited_fit = fit
                    self._first_visit = min(self._first_visit, epoch)
                elif self._seen.get(name) == len(self._visits):
                    self._repeated.add(name)
                self._seen[name] = len(self._visits)
        elif metric.phase != TRAIN:
            self._evaluation_rounds[name].add(step)
        elif epoch is None or self._learns_late(name, epoch):
            self._training_rounds[name].add(step)
            self._trained_fit = fit
        else:
            self._epochs.add(name, epoch, step)

    def learn_length(self, length: str) -> None:
        """Take the total of a counter and the metric printed beside it: `40 loss`."""
        total, _, name = length.partition(" ")
        self._totals[name].add(int(total.replace(",", "")))

    def _learns_late(self, name: str, epoch: float) -> bool:
        """Whether a bar has its epoch only from the line above, which ended the round before."""
        is_ended = self._visits[-1:] == [epoch] and epoch not in self._epochs.lasts
        if is_ended and name in self._training_rounds:
            self._ended.add(epoch)
        return self._is_late(name, epoch)

    def _is_late(self, name: str, epoch: float) -> bool:
        return epoch in self._ended and name in self._training_rounds

    def has_moved(self) -> bool:
        """Whether steps that were assigned have changed since the last call."""
        before, rounds = self._known, self._round_epochs
        self._find_lengths()
        is_other = before != self._known or rounds != self._round_epochs[: len(rounds)]
        placed_ends = self._scan.ends.items() if self._scan else ()
        ends = ((self._end_of(visit), placed) for visit, placed in placed_ends)
        return (bool(before) and is_other) or any(end not in (None, placed) for end, placed in ends)

    def _find_lengths(self) -> None:
        """Derive the lengths of epochs and rounds from the counters."""
        self._is_by_epoch = self._epochs.restart_steps
        of_epochs = (total for name in self._epochs.names for total in self._totals.get(name, ()))
        self._epoch_length = self._epochs.length(of_epochs) if self._is_by_epoch else 0
        again = {name: rounds for name, rounds in self._training_rounds.items() if rounds.has_returned}
        round_lengths = (rounds.length(self._totals.get(name, ())) for name, rounds in again.items())
        self._round_length = max(round_lengths, default=0)
        if self._before:
            for name, rounds in self._rounds_before.items():
                length = _StepRounds(rounds.first, rounds.ends[-1], self._training_rounds[name].ends)
                self._round_length = max(self._round_length, length.length(self._totals.get(name, ())))
            self._round_length = max(self._round_length, self._before._round_length)
            self._first_visit = min(self._first_visit, self._before._first_visit)
        self._round_epochs = self._epochs_of_rounds()
        first = self._epochs.first if self._is_by_epoch else self._first_visit if self._round_length else 0.0
        lengths = self._epoch_length, self._round_length, first, self._epochs.late_count
        returning = sum(rounds.has_returned for rounds in self._evaluation_rounds.values())
        is_untrained = bool(self._evaluation_rounds) and not self._is_trained
        self._known = (self._is_by_epoch, *lengths, returning, len(self._repeated), is_untrained)

    def _epochs_of_rounds(self) -> tuple[float | None, ...]:
        """The epoch of each round of the counters, from the line that ends it; None if it is unknown."""
        count = max((len(rounds.ends) for rounds in self._training_rounds.values()), default=0)
        epochs = self._visits
        if epochs and len(epochs) == count - 1:  # the last one has not ended
            epochs = [*epochs, epochs[-1] + 1 if self._visited_fit == self._trained_fit else epochs[0]]
        if len(epochs) != count or count < self._least_rounds:
            return (None,) * count
        is_explained = self._least_rounds == 1 or any(map(lt, epochs, islice(epochs, 1, None)))
        return tuple(epochs) if is_explained else (None,) * count

    def steps_of(self, run: LineRun) -> Sequence[Sequence[int | None]]:
        """The steps of each metric of the next run; metrics with equal steps share a sequence."""
        scan = self._scan = self._scan or _Scan(self.latest)
        metrics, steps = run.lines.metrics, run.steps
        first, last = steps[0], steps[-1]
        if first is None or last is None:
            return [
                [self._step_of_line(scan, metric.name, run.epoch, run.fit)] * len(steps) for metric in metrics
            ]
        shifted, placed = {0: steps}, list[Sequence[int | None]]()
        for metric in metrics:
            if self._is_trained and metric.phase != TRAIN:
                measured = cast("Sequence[int]", steps)
                placed.append(self._steps_of_measure(scan, metric.name, run.epoch, measured))
                continue
            shift = self._shift(scan, metric.name, run.epoch, first, last)
            if shift not in shifted:
                shifted[shift] = [step + shift for step in cast("Sequence[int]", steps)]
            placed.append(shifted[shift])
            scan.latest = last + shift
        return placed

    @property
    def latest(self) -> int | None:
        """The step up to which its numbers have steps."""
        if self._scan:
            return self._scan.latest
        return self._before.latest if self._before else None

    def _shift(self, scan: _Scan, name: str, epoch: float | None, first: int, last: int) -> int:
        """What is added to the steps of a training metric from `first` to `last`."""
        if epoch is not None and not self._is_late(name, epoch):
            return self._begin_of(epoch)
        number, before = scan.rounds.get(name, (0, -1))
        number += first < before
        scan.rounds[name] = number, last
        return self._begin_of_round(number)

    def _begin_of(self, epoch: float) -> int:
        """The steps before an epoch; 0 if they are not counted within epochs."""
        return self._epochs.count_before(epoch) * self._epoch_length if self._is_by_epoch else 0

    def _begin_of_round(self, number: int) -> int:
        epoch = self._round_epochs[number] if number < len(self._round_epochs) else None
        return 0 if epoch is None else int(epoch - self._first_visit) * self._round_length

    def _steps_of_measure(
        self, scan: _Scan, name: str, epoch: float | None, steps: Sequence[int]
    ) -> Sequence[int | None]:
        """The steps of a validation: where training was, if its batches are counted."""
        latest = scan.latest
        if epoch is None:
            is_counted = self._counts_batches(name) and latest is not None
            return [latest] * len(steps) if is_counted else steps
        begin = self._begin_of(epoch)
        return [max(step + begin, latest or 0) for step in steps]

    def _counts_batches(self, name: str) -> bool:
        """Whether the steps of a validation start again."""
        is_known = self._evaluation_rounds[name].has_returned
        return is_known or (self._before is not None and self._before._counts_batches(name))

    def _step_of_line(self, scan: _Scan, name: str, epoch: float | None, fit: int) -> int | None:
        """The step of a number without one: the last of its epoch, if the line ends it; else the latest."""
        if epoch is None or not float(epoch).is_integer():
            return scan.latest
        if (fit, epoch) != scan.epoch:
            scan.epoch, scan.visit = (fit, epoch), scan.visit + 1
        if name in self._repeated:
            return scan.latest
        end = self._end_of(scan.visit)
        step = scan.latest if end is None else end
        if step is not None:
            before = {scan.visit - 1: scan.ends.get(scan.visit - 1, step)} if scan.visit else {}
            scan.ends = {**before, scan.visit: step}
        return step

    def _end_of(self, visit: int) -> int | None:
        """The last step of the epoch that lines without a step visit."""
        if self._is_by_epoch and visit < len(self._visits):
            last = self._epochs.lasts.get(self._visits[visit])
            return None if last is None else self._begin_of(self._visits[visit]) + last
        if visit >= len(self._round_epochs) or self._round_epochs[visit] is None:
            return None
        least = max(self._least_rounds - 1, visit)
        again = [rounds.ends for rounds in self._training_rounds.values() if len(rounds.ends) > least]
        return max((self._begin_of_round(visit) + ends[visit] for ends in again), default=None)
