"""The runs of a log, with what their headers tell.

A new attempt of the job starts anew, unless it resumes after the first step of the attempt before: then it
continues that one, as one curve, and what it repeats is left out. Each run of an attempt is a fit of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain, pairwise
from operator import itemgetter
from typing import NamedTuple

from batchai_magics.metrics.grammar.metric_names import TRAIN
from batchai_magics.metrics.measurement import ATTEMPT, Fact, Record
from batchai_magics.metrics.measurement_table import LineColumns, MeasurementTable, Rank
from batchai_magics.metrics.runs.mean_rates import GLOBAL_RATES
from batchai_magics.metrics.runs.run_starts import count_ranks
from batchai_magics.metrics.runs.timeline import Timeline, never_falls

# step lines of tf_cnn_benchmarks then contain the rate of all processes
_ALL_REDUCE = "distributed_all_reduce"
_QUOTED = re.compile(r"'([^']*)'")


def on_timeline(records: Iterable[Record]) -> MeasurementTable:
    """The records of a log without what later attempts repeat, with the steps of the timeline."""
    return PlacedLog(records).table


def without_repeated(records: Iterable[Record]) -> MeasurementTable:
    """The records of a log, as printed, without what later attempts repeat."""
    return _Attempts.of(MeasurementTable.of(records)).table


class PlacedLog:
    """A growing log on one timeline, without what later attempts repeat.

    Attributes:
        table: The records that it was made of, as `on_timeline` gives them.
        is_outdated: Another attempt has begun since, or repeats what was given: another one is needed.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        attempts = _Attempts.of(MeasurementTable.of(records))
        self._latest, self._timeline = attempts.latest, Timeline(attempts.above)
        self.table = self._timeline.add(attempts.table)
        self.is_outdated = False

    @property
    def has_attempts(self) -> bool:
        """Whether it is not the first attempt."""
        return self._latest is not None

    @property
    def fit_names(self) -> Sequence[str]:
        """The names of its fits so far, by their numbers."""
        return self._timeline.fit_names

    @property
    def has_moved(self) -> bool:
        """Whether what was given before has other steps now, or is repeated."""
        return self.is_outdated or self._timeline.has_moved or bool(self._latest and self._latest.has_moved)

    def add(self, records: Iterable[Record]) -> MeasurementTable:
        """Add the next records of the log; gives them with their steps."""
        table = MeasurementTable.of(records)
        self.is_outdated |= any(fact.key == ATTEMPT for _, fact in table.facts)
        if self._latest:
            self.is_outdated |= self._latest.add(table)
        return self._timeline.add(table)


@dataclass(frozen=True)
class _Attempts:
    """The attempts of a log as printed, without what later ones repeat.

    Attributes:
        table: Their records.
        above: The facts of attempts before one that starts anew.
        latest: The latest attempt, unless it is the first.
    """

    table: MeasurementTable
    above: Sequence[Fact] = ()
    latest: _Attempt | None = None

    @classmethod
    def of(cls, table: MeasurementTable) -> _Attempts:
        """The attempts of a log."""
        begins = [row for row, fact in table.facts if fact.key == ATTEMPT]
        first, *others = (table.between(*part) for part in pairwise([0, *begins, table.row_count]))
        return reduce(cls.followed_by, others, cls(first))

    def followed_by(self, attempt: MeasurementTable) -> _Attempts:
        """These attempts with the next one, which may start anew."""
        start = _Attempt(self, attempt)
        if start.is_resumed:
            return _Attempts(start.not_repeated(self.table).followed_by(attempt), self.above, start)
        return _Attempts(attempt, [*self.above, *(fact for _, fact in self.table.facts)], start)


class _Attempt:
    """The lines of an attempt, and those before, on one timeline.

    It goes on within the last fit before, unless a heading names another one. While it has printed no number
    of training, it repeats none.
    """

    def __init__(self, run: _Attempts, attempt: MeasurementTable) -> None:
        self._timeline = Timeline(run.above)
        placed = self._timeline.add(run.table.followed_by(attempt))
        begin = attempt.facts[0][0]
        self._before = placed.between(0, begin)
        lines = placed.between(begin, placed.row_count)
        self._begin = _Begin().earliest(_first_fit(lines))
        self._least = _Begin().earliest(lines)

    @property
    def has_moved(self) -> bool:
        """Whether lines have other steps now."""
        return self._timeline.has_moved

    @property
    def is_resumed(self) -> bool:
        """Whether it goes on after the first position before; also before its first number."""
        if not self._begin.is_trained and _Begin().earliest(self._before).is_trained:
            return True
        first, first_before = self._begin.first, _Begin().earliest(self._before).first
        if first.fit != first_before.fit:
            return first.fit > first_before.fit
        return first.is_after(_Begin().earliest(self._last_fit).first)

    @cached_property
    def _last_fit(self) -> MeasurementTable:
        """The lines before of the fit in which it begins, from where their position went back last."""
        fit = self._begin.first.fit
        of_fit = [
            lines.take([index for index, number in enumerate(lines.fits) if number == fit])
            for lines in self._before.lines
        ]
        begin = max(_rows_of_return(of_fit), default=0)
        return self._before.with_lines(of_fit).between(begin, self._before.row_count)

    def not_repeated(self, run: MeasurementTable) -> MeasurementTable:
        """The lines of the run before that it does not repeat."""
        placed_lines = {lines.metrics: lines for lines in self._before.lines}
        first, last_fit = self._begin.first, self._last_fit
        begin = min((lines.rows[0] for lines in last_fit.lines), default=0)
        remaining = []
        for lines in run.lines:
            if _is_of_training(lines) and not self._begin.is_trained:
                remaining.append(lines)
                continue
            positions = zip(lines.rows, _positions(placed_lines[lines.metrics]), strict=True)
            remaining.append(
                lines.take(
                    [
                        index
                        for index, (row, position) in enumerate(positions)
                        if not first.is_repeated_at(position) or (row < begin and position.fit == first.fit)
                    ]
                )
            )
        return run.with_lines(remaining)

    def add(self, table: MeasurementTable) -> bool:
        """Add its next lines; returns whether it may begin earlier with them."""
        least = self._least
        self._least = least.earliest(self._timeline.add(table))
        return (self._least.first, self._least.is_trained) != (least.first, least.is_trained)


def _first_fit(attempt: MeasurementTable) -> MeasurementTable:
    """The lines of an attempt up to where their position goes back."""
    return attempt.between(0, min(_rows_of_return(attempt.lines), default=attempt.row_count))


def _is_of_training(lines: LineColumns) -> bool:
    return lines.metrics[0].phase == TRAIN


def _rows_of_return(groups: Iterable[LineColumns]) -> Iterator[int]:
    """The rows at which the position of a rank goes back in training, or in any phase if there is none."""
    every = [lines for lines in groups if lines.rows]
    for lines in [*filter(_is_of_training, every)] or every:
        if None not in lines.steps[0] and never_falls(lines.steps[0]):
            continue
        latest: dict[Rank, _Position] = {}
        for row, rank, position in zip(lines.rows, lines.ranks, _positions(lines), strict=True):
            before = latest.get(rank, position)
            if position.step < before.step < math.inf or position.epoch < before.epoch < math.inf:
                yield row
            latest[rank] = position


class _Position(NamedTuple):
    """Where a line is: its fit, its step or, without one, its epoch; infinity stands for none."""

    fit: float = math.inf
    step: float = math.inf
    epoch: float = math.inf

    def earliest(self, other: _Position) -> _Position:
        """The first step and epoch of the first fit."""
        if self.fit != other.fit:
            return min(self, other, key=itemgetter(0))
        return _Position(self.fit, min(self.step, other.step), min(self.epoch, other.epoch))

    def is_after(self, other: _Position) -> bool:
        """Whether it is after another one, as far as they can be compared."""
        if self.fit != other.fit:
            return self.fit > other.fit
        pairs = (self.step, other.step), (self.epoch, other.epoch)
        return all(before == math.inf or place > before for place, before in pairs)

    def is_repeated_at(self, other: _Position) -> bool:
        """Whether what begins here repeats another position."""
        if self.fit != other.fit:
            return self.fit < other.fit
        return self.step <= other.step < math.inf or self.epoch <= other.epoch < math.inf


def _positions(lines: LineColumns) -> Iterator[_Position]:
    for fit, step, epoch in zip(lines.fits, lines.steps[0], lines.epochs, strict=True):
        if step is None:
            yield _Position(fit) if epoch is None else _Position(fit, epoch=epoch)
        else:
            yield _Position(fit, step)


def _earliest(lines: LineColumns) -> _Position:
    """The first step and epoch of the first fit of some lines."""
    if not lines.fits.is_constant:
        return reduce(_Position.earliest, _positions(lines))
    steps = lines.steps[0]
    known = [step for step in steps if step is not None]
    pairs = zip(steps, lines.epochs, strict=True) if len(known) < len(steps) else ()
    epochs = (epoch for step, epoch in pairs if step is None and epoch is not None)
    return _Position(lines.fits[0], min(known, default=math.inf), min(epochs, default=math.inf))


_NOWHERE = _Position()


@dataclass(frozen=True)
class _Begin:
    """Where an attempt begins: with its first line of training, else with its first line."""

    training: _Position = _NOWHERE
    others: _Position = _NOWHERE

    @property
    def is_trained(self) -> bool:
        """Whether it has a line of training."""
        return self.training.fit < math.inf

    @property
    def first(self) -> _Position:
        """Its first position."""
        is_placed = min(self.training[1:]) < math.inf
        return self.training if is_placed else self.training.earliest(self.others)

    def earliest(self, table: MeasurementTable) -> _Begin:
        """Where it begins with further lines."""
        firsts = [self.others, self.training]
        for lines in table.lines:
            is_training = _is_of_training(lines)
            firsts[is_training] = firsts[is_training].earliest(_earliest(lines))
        return _Begin(*reversed(firsts))


def attempt_starts(run: MeasurementTable, axis: str) -> list[float]:
    """Where later attempts of a run begin on the axis `step` or `epoch`; empty without such numbers."""
    begins = [row for row, fact in run.facts if fact.key == ATTEMPT and int(fact.value) > 1]
    starts: list[float] = []
    for begin, end in pairwise([*begins, run.row_count]):
        if first := first_placed_line(run.between(begin, end)):
            lines, index = first
            column = {"step": lines.steps[0], "epoch": lines.epochs}.get(axis)
            position = None if column is None else column[index]
            starts += [] if position is None else [position]
    return starts


def first_placed_line(run: MeasurementTable) -> tuple[LineColumns, int] | None:
    """The first line that has a step or an epoch: the columns that it is in, and its index there."""
    first: tuple[int, LineColumns, int] | None = None
    for lines in run.lines:
        places = (min(position[1:]) for position in _positions(lines))
        index = next((index for index, place in enumerate(places) if place < math.inf), None)
        if index is not None and (first is None or lines.rows[index] < first[0]):
            first = lines.rows[index], lines, index
    return first and first[1:]


@dataclass(frozen=True)
class RunHeader:
    """The parameters of one run; None if the log does not contain them.

    Attributes:
        model: The model that the program named.
        dataset: The data set.
        variable_update: How variables are updated: `horovod`, `parameter_server`, ….
        batch_size_global: Images per step of all devices.
        batch_size_per_device: Images per step of a device.
        devices: The names of the devices.
        device_count: Their number.
        is_rate_global: Each rank prints the speed of all; then nothing is known of single ranks. That is so
            in tf_cnn_benchmarks with `distributed_all_reduce` and in CNTK, whose processes divide the samples
            of all by their own time.
        ranks: The number of processes; 0 if it is unknown.
    """

    model: str | None = None
    dataset: str | None = None
    variable_update: str | None = None
    batch_size_global: int | None = None
    batch_size_per_device: int | None = None
    devices: tuple[str, ...] = ()
    device_count: int | None = None
    is_rate_global: bool = False
    ranks: int = 0


def run_header(run: MeasurementTable, *, ranks_seen: int) -> RunHeader:
    """The header of one run, in which `ranks_seen` processes printed records; `ranks` are as announced."""
    facts = [*map(itemgetter(1), run.facts)]
    names = run.names
    entries = {fact.key: fact.value for fact in facts}
    devices = _devices(facts)
    counted = max(_count(entries, "device_count") or 0, _printed_devices(run))
    device_count = len(devices) or counted or None
    # a bare `batch_size` is per device if devices are counted
    bare = ("batch_size",) if device_count or ranks_seen <= 1 else ()
    per_device, in_all = _count(entries, "batch_size_per_device", *bare), _count(entries, "batch_size_global")
    if bare and in_all is None and per_device is not None:
        in_all = per_device * (device_count or 1)
    return RunHeader(
        model=entries.get("model"),
        dataset=entries.get("dataset"),
        variable_update=entries.get("variables"),
        batch_size_global=in_all,
        batch_size_per_device=per_device,
        devices=devices,
        device_count=device_count,
        is_rate_global=entries.get("variables") == _ALL_REDUCE or not names.isdisjoint(GLOBAL_RATES),
        ranks=max(counted, *map(count_ranks, facts), 0),
    )


def _devices(facts: Sequence[Fact]) -> tuple[str, ...]:
    """All devices in the headers, without duplicates: Horovod ranks each print all, others their own."""
    named = (fact.value for fact in facts if fact.key == "devices")
    return tuple(dict.fromkeys(device for value in named for device in _QUOTED.findall(value)))


def _printed_devices(run: MeasurementTable) -> int:
    """The number of devices that a line of a program's own tells."""
    printed = (lines.value("devices") for lines in run.lines if "devices" in lines.names)
    return int(max(filter(math.isfinite, chain.from_iterable(printed)), default=0))


def _count(entries: Mapping[str, str], *keys: str) -> int | None:
    """The first of these entries that is a number; Python 3 printed `64.0` for some months of 2018."""
    for key in keys:
        with suppress(KeyError, ValueError, OverflowError):
            return int(float(entries[key]))
    return None
