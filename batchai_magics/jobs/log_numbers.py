"""The numbers of a job: its log's as columns of charts and records, its resource usage as curves."""

from __future__ import annotations

import json
import math
import threading
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, cast

from batchai_magics.metrics import summarize
from batchai_magics.metrics.measurement import (
    ATTEMPT,
    FIT,
    RATE_UNIT,
    Fact,
    Measurement,
    Record,
    is_step_line,
)
from batchai_magics.metrics.measurement_table import MeasurementTable, rows_of
from batchai_magics.metrics.runs.fits import FitHeadings, Segments
from batchai_magics.metrics.runs.metric_traits import MetricTraits, traits_of
from batchai_magics.metrics.runs.resource_usage import MeanUsage, ResourceUsage, UsageRates, reason_for
from batchai_magics.metrics.runs.run_metrics import ORDER, QUALIFIERS, RATE
from batchai_magics.metrics.runs.timeline import EpochCounter, Timeline, in_time_order
from batchai_magics.models.telemetry_records import TelemetryRecord

POINT_BYTES = 24
MAX_SEGMENTS = 20  # lines of a metric
VALUE_BYTES = 24
NO_RANK = -1
_NAN = float("nan")
_MAX_INT = (1 << 31) - 1
MAX_POINTS = 80  # of a curve; neighbours are joined when it becomes longer
MAX_RANKS = 16  # that are drawn
GROWTH, MAX_RECORDS = 1.3, 50_000  # after which stragglers are sought again, and are taken as known

_OF_RANK = ("cpu_percent", "memory_bytes", "gpu_memory_bytes")
_OF_GPU = ("gpu_percent", "gpu_memory_bytes")
_SHOWN_IF_ZERO = ("cpu_percent", "gpu_percent")  # that one does nothing is news
_OF_MACHINE = ("load", "available_bytes", "received_bytes_per_s", "sent_bytes_per_s")


class LogNumbers:
    """The numbers of a log by name, as columns: those of the step lines of tf_cnn_benchmarks, and all others.

    Steps are those of the timeline, times seconds since the first number of the log. `generation` increases
    when the log was truncated or numbers have moved on the timeline: what was sent before is void.
    `has_moved`: they are to be renumbered. `labels` are those of lines whose label is not their name: the
    first of several segments of a metric is labelled with its heading.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._attempt: Fact | None = None  # the latest one, until it has a step
        self._forget_log()
        self._forget_places()

    def __len__(self) -> int:
        return len(self._step_lines[RATE])

    def add(self, records: Iterable[Record]) -> None:
        """Adds the numbers among the records, which follow those that were added."""
        rows = [*rows_of(records)]
        self.has_moved |= self._timeline.add(rows)
        if self.metrics:  # which another file may have printed below a heading that comes now
            self.has_moved |= any(isinstance(row[0], Fact) and row[0].key == FIT for row in rows)
        self._add_rows(rows)
        self._mark_attempt(chain.from_iterable(rows))

    def renumber(self, records: Collection[Record]) -> None:
        """Places all numbers anew; `records` are those that were added, in the order of writing."""
        self.generation += 1
        self._forget_places()
        attempt = self._attempt
        self._timeline.add(rows_of(records))
        self._add_rows(rows_of(records))
        self._attempt = attempt

    def restart(self) -> None:
        """Drops all numbers: the log was truncated."""
        self.generation += 1
        self._forget_log()
        self._forget_places()

    def _forget_log(self) -> None:
        self._start: float | None = None  # time of the first number
        self._has_epochs = False
        self.attempts: dict[int, int] = {}  # first steps by attempt, from the second one on
        self._attempt = None

    def _forget_places(self) -> None:
        self.has_moved = False
        self.others: dict[str, NumberColumns] = {}
        self.labels: dict[str, str] = {}
        self._step_lines = {
            name: NumberColumns(traits_of(name, unit=unit), unit) for name, unit in _STEP_LINE_UNITS.items()
        }
        self._timeline, self._epochs = Timeline(), EpochCounter()
        self._headings = FitHeadings()
        self._segments: dict[tuple[str, int | None], Segments] = {}  # of a metric and rank
        self._first_names: dict[str, str] = {}  # of the first segments of metrics

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
        steps = [self._step_lines[RATE], self._step_lines["loss"]] if len(self) else []
        return [(values.traits, values.unit) for values in (*steps, *self.others.values())]

    @property
    def axis(self) -> str:
        """The x axis that suits the run: steps, epochs where the log tells no step, else ORDER."""
        if self._timeline.has_steps or len(self) or not self.others:
            return "step"
        return "epoch" if self._has_epochs else ORDER

    def columns(self, first: int, count: int) -> list[bytes]:
        """The bytes of six columns for `count` step lines from `first`.

        They are step and rank (int32), images/sec, loss, jitter and time (float32).
        """
        rates, losses, jitters = (self._step_lines[name] for name in (RATE, "loss", "jitter"))
        steps, ranks, values, _, times = rates.columns(first, count)
        places = array("i", [int(min(step, _MAX_INT)) for step in array("d", steps)])
        return [
            places.tobytes(),
            ranks,
            values,
            losses.columns(first, count)[2],
            jitters.columns(first, count)[2],
            times,
        ]

    def _add_rows(self, rows: Iterable[Sequence[Record]]) -> None:
        for row in rows:
            fact = row[0]
            if not isinstance(fact, Fact):
                self._add_line(cast("Sequence[Measurement]", row))
                continue
            self._headings.enter(fact)
            self._timeline.enter(fact)
            if fact.key == ATTEMPT and int(fact.value) > 1:
                self._attempt = fact
                self._segments.clear()  # it repeats steps of the one before

    def _add_line(self, line: Sequence[Measurement]) -> None:
        step_lines = self._step_lines if is_step_line(line) else {}
        first = line[0]
        if self._start is None:
            self._start = first.wall_time
        seconds = _NAN if first.wall_time is None else first.wall_time - (self._start or 0)
        for number, step in zip(line, self._timeline.steps(line), strict=True):
            if number.name in step_lines:
                step_lines[number.name].add(step, number.rank, number.value, epoch=None, seconds=seconds)
            elif (number.name, number.unit) not in QUALIFIERS:
                self._add_other(number, step, seconds)
        for name in step_lines.keys() - {number.name for number in line}:
            step_lines[name].add(first.step, first.rank, _NAN, epoch=None, seconds=seconds)

    def _add_other(self, number: Measurement, step: int | None, seconds: float) -> None:
        name, value, unit, _, epoch, rank, _, _, phase = number
        self._has_epochs = self._has_epochs or epoch is not None
        if step is None and epoch is not None:
            step = self._epochs.number(rank, epoch, name, self._headings.of(rank).number)
        line = self._line_name(name, rank, step)
        values = self.others.get(line)
        if values is None:
            traits = replace(traits_of(name, phase, unit), name=line)
            values = self.others[line] = NumberColumns(traits, unit)
        values.add(step, rank, value, epoch=epoch, seconds=seconds)

    def _line_name(self, name: str, rank: int | None, place: int | None) -> str:
        """The line of a metric that a value belongs to: each segment has its own."""
        segments = self._segments.setdefault((name, rank), Segments())
        if place is not None and segments.number < MAX_SEGMENTS:
            segments.add(place, self._headings.of(rank))
        if segments.number == 1:
            self._first_names.setdefault(name, segments.name)
        if segments.number < 2:
            return name
        if first := self._first_names[name]:
            self.labels[name] = f"{name} ({first})"
        return f"{name} ({segments.name})"


_STEP_LINE_UNITS = {RATE: RATE_UNIT, "jitter": RATE_UNIT, "loss": ""}


class NumberColumns:
    """A segment of a metric, as columns: step (float64), rank (int32), value, epoch, time (float32).

    NaN stands for an unknown epoch or time.
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


class RecordHistory(Collection[Record]):
    """All records of a job's growing logs in the order of writing, as columns."""

    def __init__(self) -> None:
        self._files: dict[str, MeasurementTable] = {}
        self._lock = threading.Lock()  # one thread adds, others read
        self._table: MeasurementTable | None = None  # of the records so far

    def __len__(self) -> int:
        return sum(map(len, self._files.values()))

    def __iter__(self) -> Iterator[Record]:
        return iter(self.table)

    def __contains__(self, record: object) -> bool:
        return record in self.table

    @property
    def table(self) -> MeasurementTable:
        """The records so far: a table that does not grow, for any thread."""
        with self._lock:
            if self._table is not None:
                return self._table
            parts, count = [part.copy() for part in self._files.values()], len(self)
        table = MeasurementTable.of(in_time_order(parts))
        with self._lock:
            if count == len(self):
                self._table = table
        return table

    def add(self, records: Iterable[Record], file: str = "") -> bool:
        """Appends records of a file; returns whether they are its first, and other files have some."""
        with self._lock:
            is_new, self._table = file not in self._files, None
            self._files.setdefault(file, MeasurementTable()).extend(records)
            return is_new and len(self._files) > 1

    def clear(self) -> None:
        """Drops all records: the log was truncated."""
        with self._lock:
            self._files.clear()
            self._table = None


class UsageCurve:
    """Values over time, downsampled to a few points that average equally many values."""

    def __init__(self) -> None:
        self.points: list[float] = []
        self.last = 0.0
        self._width = 1  # values per point
        self._rest: list[float] = []

    def add(self, value: float) -> None:
        """Adds the next value."""
        self.last = value
        self._rest.append(value)
        if len(self._rest) == self._width:
            self.points.append(_mean(self._rest))
            self._rest = []
        if len(self.points) >= MAX_POINTS:
            self.points = [_mean(self.points[i : i + 2]) for i in range(0, MAX_POINTS, 2)]
            self._width *= 2

    @property
    def fields(self) -> dict[str, Any]:
        """The curve as the page expects it."""
        return {"points": [_rounded(point) for point in self.points], "last": _rounded(self.last)}


@dataclass
class _UsageRow:
    """The curves of a rank, a GPU or a machine."""

    head: Mapping[str, Any]
    curves: dict[str, UsageCurve] = field(default_factory=dict)

    def add(self, use: ResourceUsage, names: Iterable[str]) -> None:
        for name in names:
            value = getattr(use, name)
            if not math.isnan(value):
                self.curves.setdefault(name, UsageCurve()).add(value)

    @property
    def fields(self) -> dict[str, Any]:
        seen = {
            name: curve
            for name, curve in self.curves.items()
            if curve.last or any(curve.points) or name in _SHOWN_IF_ZERO
        }
        return {**self.head, "curves": {name: curve.fields for name, curve in seen.items()}}


class UsageCurves:
    """The curves of a job. `version` increases with each sample."""

    def __init__(self) -> None:
        self.version = 0
        self._uses = UsageRates()
        self._means: dict[int, MeanUsage] = {}
        self._ranks: dict[int, _UsageRow] = {}
        self._gpus: dict[tuple[str, int], _UsageRow] = {}
        self._machines: dict[str, _UsageRow] = {}
        self._notes: tuple[str, ...] = ()
        self._stragglers: tuple[int, ...] = ()
        self._due = 8

    def take(self, record: TelemetryRecord) -> None:
        """Adds samples."""
        self._notes = record.notes
        for use in self._uses.rows(record):
            if use.rank is not None:
                row = self._ranks.setdefault(use.rank, _UsageRow({"rank": use.rank, "node": use.node}))
                row.add(use, _OF_RANK)
                self._means.setdefault(use.rank, MeanUsage()).add(use)
            elif use.gpu is not None:
                head = {"gpu": use.gpu, "machine": use.node}
                self._gpus.setdefault((use.node, use.gpu), _UsageRow(head)).add(use, _OF_GPU)
            else:
                self._machines.setdefault(use.node, _UsageRow({"machine": use.node})).add(use, _OF_MACHINE)
        self.version += 1

    def to_json(self, records: RecordHistory) -> bytes:
        """Returns everything, with the reasons of stragglers, as JSON (`ResourceUsage` in messages.d.ts)."""
        # Stragglers are sought less often as the number of records grows.
        if len(self._ranks) > 1 and self._due <= len(records) <= MAX_RECORDS:
            self._due = int(len(records) * GROWTH) + 1
            self._stragglers = summarize(records.table).stragglers
        reasons = {rank: reason_for(self._means, rank) for rank in self._stragglers}
        ranks = [row.fields for _, row in sorted(self._ranks.items())]
        data = {
            "ranks": ranks[:MAX_RANKS],
            "more": max(0, len(ranks) - MAX_RANKS),
            "gpus": [row.fields for _, row in sorted(self._gpus.items())],
            "machines": [row.fields for _, row in sorted(self._machines.items())],
            "notes": self._notes,
            "slow": {rank: reason.text for rank, reason in reasons.items() if reason},
        }
        return json.dumps(data, separators=(",", ":")).encode()


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _rounded(value: float) -> float:
    """Rounds to what a sparkline can show."""
    return round(value, 1) if value < 1000 else int(value)
