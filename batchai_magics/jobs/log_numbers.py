"""The numbers of a job's log: columns that a chart is sent, and all records for summaries."""

from __future__ import annotations

import struct
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from batchai_magics.metrics.measurement import (
    ATTEMPT,
    RATE_UNIT,
    Fact,
    Measurement,
    Record,
    StepRecord,
)
from batchai_magics.metrics.runs.metric_traits import MetricTraits, traits_of
from batchai_magics.metrics.runs.run_metrics import QUALIFIERS, STEP_UNITS
from batchai_magics.metrics.runs.timeline import EpochCounter, Timeline, in_time_order

if TYPE_CHECKING:
    from batchai_magics.metrics.columns.record_columns import Columns


POINT_BYTES = 24
MAX_SEGMENTS = 20  # lines of a metric
VALUE_BYTES = 24
NO_RANK = -1
_NAN = float("nan")
_MAX_INT = (1 << 31) - 1


class StepPoints:
    """Step lines as six columns of equal length.

    They are step and rank (int32), images/sec, loss, jitter and time (float32). Times are seconds since the
    first number of the log, NaN if unknown. `generation` increases when the log was truncated or numbers have
    moved on the timeline: what was sent before is void. `has_moved`: they are to be renumbered.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.has_moved = False
        self.others: dict[str, NamedValues] = {}
        self._start: float | None = None  # time of the first number
        self._has_epochs = False
        self.attempts: dict[int, int] = {}  # first steps by attempt, from the second one on
        self._attempt: Fact | None = None  # the latest one, until it has a step
        self._clear()

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, records: Iterable[Record]) -> None:
        """Adds the step lines among the records, and every other number under its name."""
        every = list(records)
        steps = [record for record in every if isinstance(record, StepRecord)]
        has_accuracies = self._add_steps(steps)
        if len(steps) < len(every) or has_accuracies:
            self._add_other_values(every)
        self._mark_attempt(every)

    def add_columns(self, columns: Columns) -> None:
        """Adds the same from columns, without building records: a large update has thousands of steps."""
        import numpy as np

        steps = columns.steps
        with np.errstate(over="ignore"):  # values out of range become infinite
            self._steps.frombytes(np.minimum(steps.step, _MAX_INT).astype(np.int32).tobytes())
            self._ranks.frombytes(steps.rank.astype(np.int32).tobytes())
            for own, column in zip(
                (self._rates, self._losses, self._jitters),
                (steps.images_per_sec, steps.loss, steps.jitter),
                strict=True,
            ):
                own.frombytes(column.astype(np.float32).tobytes())
            self._find_start(steps.wall_time[~np.isnan(steps.wall_time)][:1].tolist())
            self._times.frombytes((steps.wall_time - (self._start or 0)).astype(np.float32).tobytes())
        has_accuracies = steps.has_accuracy.any()
        self._add_other_values(columns if has_accuracies else [record for _, record in columns.other_records])
        self._mark_attempt(columns)

    def _mark_attempt(self, records: Iterable[Record]) -> None:
        """Marks the first step of an attempt that has begun."""
        begin = self._attempt
        if begin is None:
            return
        steps = (getattr(record, "step", None) for record in records if record.offset > begin.offset)
        first = next((step for step in steps if step is not None), None)
        if first is not None:
            self.attempts[int(begin.value)] = first
            self._attempt = None

    @property
    def metrics(self) -> list[tuple[MetricTraits, str]]:
        """The traits and units of all metrics so far."""
        steps = [("images_per_sec", RATE_UNIT), ("loss", "")] if len(self) else []
        others = ((values.traits, values.unit) for values in self.others.values())
        return [*((traits_of(name, unit=unit), unit) for name, unit in steps), *others]

    @property
    def axis(self) -> str:
        """The x axis that suits the run: steps, or epochs where the log tells no step."""
        has_steps = len(self) > 0 or self._timeline.has_steps
        return "epoch" if self._has_epochs and not has_steps else "step"

    def renumber(self, records: Iterable[Record]) -> None:
        """Places all numbers anew; `records` are those that were added, in the order of writing."""
        self.generation += 1
        self.others, self._epochs, self.has_moved = {}, EpochCounter(), False
        self._segments.clear()
        every, self._timeline = list(records), Timeline()
        self._timeline.add([record for record in every if isinstance(record, Measurement)])
        self._place(every)

    def _add_other_values(self, records: Iterable[Record]) -> None:
        every = list(records)
        numbers = [record for record in every if isinstance(record, Measurement)]
        self.has_moved |= self._timeline.add(numbers)
        self._place(every)

    def _place(self, records: Iterable[Record]) -> None:
        for record in filter(_has_other_values, records):
            if isinstance(record, Fact) and record.key == ATTEMPT and int(record.value) > 1:
                self._attempt = record
                self._segments.clear()  # it repeats steps of the one before
            time, epoch = getattr(record, "wall_time", None), getattr(record, "epoch", None)
            self._has_epochs = self._has_epochs or epoch is not None
            self._find_start([time])
            seconds = _NAN if time is None else time - (self._start or 0)
            step = self._step(record)
            for name, unit, value in _other_values(record):
                place = step
                if step is None and epoch is not None:
                    place = self._epochs.number(record.rank, epoch, name)
                values = self._line(name, record.rank, place)
                if values is None:
                    phase = record.phase if isinstance(record, Measurement) else ""
                    values = self._new_line(traits_of(name, phase, unit), unit, record.rank)
                values.add(place, record.rank, value, epoch=epoch, seconds=seconds)

    def _line(self, name: str, rank: int | None, place: int | None) -> NamedValues | None:
        """The line of a metric that a value belongs to: where places go back, another one begins."""
        segment, last = self._segments.get((name, rank), (1, -1))
        if place is not None:
            segment += place < last and segment < MAX_SEGMENTS
            self._segments[name, rank] = segment, place
        return self.others.get(_line_name(name, segment))

    def _new_line(self, traits: MetricTraits, unit: str, rank: int | None) -> NamedValues:
        segment, _ = self._segments.get((traits.name, rank), (1, -1))
        name = _line_name(traits.name, segment)
        values = self.others[name] = NamedValues(replace(traits, name=name), unit)
        return values

    def _step(self, record: Record) -> int | None:
        """The step of a record, counted over the run."""
        if isinstance(record, Measurement):
            return self._timeline.step(record)
        step: int | None = getattr(record, "step", None)
        return step

    def _find_start(self, times: Iterable[float | None]) -> None:
        """Takes the first known time as the start."""
        if self._start is None:
            self._start = next((time for time in times if time is not None), None)

    def _add_steps(self, records: Sequence[StepRecord]) -> bool:
        """Adds step lines; returns whether some have accuracies."""
        if not records:
            return False
        steps, ranks, rates, _, jitters, losses, top_1, top_5, _, times = zip(*records, strict=True)
        _extend(self._steps, steps if max(steps) <= _MAX_INT else [min(step, _MAX_INT) for step in steps])
        _extend(self._ranks, _with_default(ranks, NO_RANK))
        _extend(self._rates, rates)
        _extend(self._losses, losses)
        _extend(self._jitters, jitters)
        self._find_start(times)
        start = self._start or 0
        _extend(self._times, [time - start for time in _with_default(times, _NAN)])
        return top_1.count(None) + top_5.count(None) < 2 * len(records)

    def columns(self, first: int, count: int) -> list[bytes]:
        """The columns' bytes for `count` points from `first`."""
        columns = (self._steps, self._ranks, self._rates, self._losses, self._jitters, self._times)
        return [column[first : first + count].tobytes() for column in columns]

    def restart(self) -> None:
        """Drops all numbers: the log was truncated."""
        self.generation += 1
        self.others = {}
        self._clear()

    def _clear(self) -> None:
        self._steps = array("i")
        self._ranks = array("i")
        self._rates = array("f")
        self._losses = array("f")
        self._jitters = array("f")
        self._times = array("f")
        self._start = None
        self._timeline, self._epochs = Timeline(), EpochCounter()
        self.has_moved = False
        self._segments: dict[tuple[str, int | None], tuple[int, int]] = {}  # the line and its last place
        self._has_epochs = False
        self.attempts = {}
        self._attempt = None


def _with_default(values: Sequence[float | None], default: float) -> Sequence[float]:
    """The values, with a default in place of None; most columns have none."""
    if None in values:
        return [default if value is None else value for value in values]
    return cast("Sequence[float]", values)


def _extend(column: array[Any], numbers: Sequence[float]) -> None:
    """Equivalent to `column.extend`, in a third of the time."""
    column.frombytes(struct.pack(f"{len(numbers)}{column.typecode}", *numbers))


def _line_name(name: str, segment: int) -> str:
    return name if segment == 1 else f"{name} ({segment})"


class NamedValues:
    """A segment of another metric, as columns: step (float64), rank (int32), value, epoch, time (float32).

    Times are seconds since the first number of the log; NaN stands for an unknown epoch or time.
    """

    def __init__(self, traits: MetricTraits, unit: str) -> None:
        self.traits = traits
        self.unit = unit
        self._steps = array("d")
        self._ranks = array("i")
        self._values = array("f")
        self._epochs = array("f")
        self._times = array("f")
        self._counts: defaultdict[int, int] = defaultdict(int)

    def __len__(self) -> int:
        return len(self._steps)

    def add(
        self, step: int | None, rank: int | None, value: float, *, epoch: float | None, seconds: float
    ) -> None:
        """Adds a value; without a step, the rank's values are numbered."""
        who = NO_RANK if rank is None else rank
        self._counts[who] += 1
        self._steps.append(self._counts[who] if step is None else step)
        self._ranks.append(who)
        self._values.append(value)
        self._epochs.append(_NAN if epoch is None else epoch)
        self._times.append(seconds)

    def columns(self, first: int, count: int) -> list[bytes]:
        """The columns' bytes for `count` values from `first`."""
        columns = (self._steps, self._ranks, self._values, self._epochs, self._times)
        return [column[first : first + count].tobytes() for column in columns]


def _has_other_values(record: Record) -> bool:
    return not isinstance(record, StepRecord) or record.top_1 is not None or record.top_5 is not None


def _other_values(record: Record) -> Iterator[tuple[str, str, float]]:
    """Name, unit and value of each number in a record except images/sec and loss."""
    if isinstance(record, Measurement):
        if (record.name, record.unit) not in QUALIFIERS:
            yield record.name, record.unit, record.value
    elif isinstance(record, StepRecord):
        for name, unit in _ACCURACIES.items():
            value = getattr(record, name)
            if value is not None:
                yield name, unit, value


_ACCURACIES = {name: unit for name, unit in STEP_UNITS.items() if name.startswith("top_")}


MAX_UNPACKED = 8000  # records kept one by one, before they are packed into columns


class RecordHistory(Collection[Record]):
    """All records of a job's growing logs in the order of writing; most are packed, for the GC's sake."""

    def __init__(self) -> None:
        self._files: dict[str, _FileRecords] = {}

    def __len__(self) -> int:
        return sum(file.count for file in self._files.values())

    def __iter__(self) -> Iterator[Record]:
        files = list(self._files.values())
        return iter(files[0]) if len(files) == 1 else iter(in_time_order([list(file) for file in files]))

    def __contains__(self, record: object) -> bool:
        return any(record == each for each in self)

    def add(self, records: tuple[Record, ...] | Columns, file: str = "") -> bool:
        """Appends records of a file; returns whether they are its first, and other files have some."""
        is_new = file not in self._files
        self._files.setdefault(file, _FileRecords()).add(records)
        return is_new and len(self._files) > 1

    def clear(self) -> None:
        """Drops all records: the log was truncated."""
        self._files.clear()


class _FileRecords:
    """The records of a file, in order."""

    def __init__(self) -> None:
        self._packed: list[Collection[Record]] = []
        self._unpacked: list[Record] = []  # after the packed ones
        self.count = 0

    def __iter__(self) -> Iterator[Record]:
        for part in self._packed:
            yield from part
        yield from self._unpacked

    def add(self, records: tuple[Record, ...] | Columns) -> None:
        self.count += len(records)
        if isinstance(records, tuple):
            self._unpacked.extend(records)
            if len(self._unpacked) >= MAX_UNPACKED:
                self._pack()
        else:
            self._pack()
            self._packed.append(records)

    def _pack(self) -> None:
        from batchai_magics.metrics.columns.record_columns import Columns

        if self._unpacked:
            self._packed.append(Columns.of(self._unpacked))
            self._unpacked = []
