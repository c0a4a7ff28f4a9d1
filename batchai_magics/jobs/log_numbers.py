"""The numbers of a job: its log's as columns of charts and records, its resource usage as curves."""

from __future__ import annotations

import json
import math
import threading
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

from batchai_magics.metrics import summarize
from batchai_magics.metrics.column import Column
from batchai_magics.metrics.grammar.metric_names import TRAIN
from batchai_magics.metrics.measurement import ATTEMPT, FIT, RATE_UNIT, Fact, MetricName, Record
from batchai_magics.metrics.measurement_table import MeasurementTable, Rank, in_row_order, indices_by_rank
from batchai_magics.metrics.runs.fits import Segments
from batchai_magics.metrics.runs.log_runs import RUN_KEYS, opens_run
from batchai_magics.metrics.runs.mean_rates import ProcessNumbers
from batchai_magics.metrics.runs.metric_traits import MetricTraits, traits_of
from batchai_magics.metrics.runs.positions import Positions
from batchai_magics.metrics.runs.resource_usage import MeanUsage, ResourceUsage, UsageRates, reason_for
from batchai_magics.metrics.runs.run_metrics import QUALIFIERS
from batchai_magics.metrics.runs.timeline import Timeline, in_time_order, never_falls
from batchai_magics.models.telemetry_records import TelemetryRecord

MAX_SEGMENTS = 20  # lines of a metric
VALUE_BYTES = 24  # with its position
NO_RANK = -1
_NAN = math.nan
MAX_POINTS = 80  # of a curve; neighbours are joined when it becomes longer
MAX_RANKS = 16  # that are drawn
GROWTH, MAX_RECORDS = 1.3, 50_000  # after which stragglers are sought again, and are taken as known

_OF_RANK = ("cpu_percent", "memory_bytes", "gpu_memory_bytes")
_OF_GPU = ("gpu_percent", "gpu_memory_bytes")
_SHOWN_IF_ZERO = ("cpu_percent", "gpu_percent")  # that one does nothing is news
_OF_MACHINE = ("load", "available_bytes", "received_bytes_per_s", "sent_bytes_per_s")


BAND = MetricName("jitter", RATE_UNIT, TRAIN)  # how far the single rates scatter around their mean


class LogNumbers:
    """The numbers of a log by name, as columns.

    Steps are those of `Positions`, times seconds since the first number of the log. `generation` increases
    when the log was truncated or numbers have moved on the timeline: what was sent before is void.
    `has_moved`: they are to be renumbered. `labels` are those of lines whose label is not their name: the
    first of several segments of a metric is labelled with its heading.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._forget_log()
        self._forget_places()

    def add(self, records: Iterable[Record]) -> None:
        """Adds the numbers among the records, which follow those that were added."""
        table = MeasurementTable.of(records)
        if self.metrics:  # which another file may have printed below a heading that comes now
            self.has_moved |= any(fact.key == FIT for _, fact in table.facts)
        self._add(table)
        self.has_moved |= self._timeline.has_moved or self._processes.has_moved
        self._mark_attempts(table)

    def renumber(self, records: Iterable[Record]) -> None:
        """Places all numbers anew; `records` are those that were added, in the order of writing."""
        self.generation += 1
        self._forget_places()
        self._add(MeasurementTable.of(records))

    def restart(self) -> None:
        """Drops all numbers: the log was truncated."""
        self.generation += 1
        self._forget_log()
        self._forget_places()

    def _forget_log(self) -> None:
        self._start: float | None = None  # time of the first number
        self.attempts: dict[int, int] = {}  # first steps by attempt, from the second one on
        self._attempt: Fact | None = None  # the latest one, until it has a step
        self._processes = ProcessNumbers()

    def _forget_places(self) -> None:
        self.has_moved = False
        self.series: dict[str, NumberColumns] = {}
        self.labels: dict[str, str] = {}
        self._timeline, self._positions = Timeline(), Positions()
        self._processes = ProcessNumbers(are_numbered=self._processes.are_several)
        self._run: list[Fact] = []  # the facts of the latest run
        self._segments = defaultdict[str, defaultdict[Rank, Segments]](
            lambda: defaultdict(lambda: Segments(self._timeline.fit_names))
        )
        self._first_names: dict[str, str] = {}  # of the first segments of metrics

    def _mark_attempts(self, table: MeasurementTable) -> None:
        """Marks the first step of each attempt that has begun."""
        for part in table.parts(ATTEMPT):
            for _, fact in part.facts:
                if fact.key == ATTEMPT and int(fact.value) > 1:
                    self._attempt = fact
            begin = self._attempt
            if begin is None:
                continue
            steps = (getattr(record, "step", None) for record in part if record.offset > begin.offset)
            first = next((step for step in steps if step is not None), None)
            if first is not None:
                self.attempts[int(begin.value)] = first
                self._attempt = None

    @property
    def metrics(self) -> list[tuple[MetricTraits, str]]:
        """The traits and units of all metrics so far."""
        return [(values.traits, values.unit) for values in self.series.values() if not values.is_band]

    @property
    def mean_rates(self) -> int:
        """How many mean rates with their jitter the program has printed."""
        return sum(len(values) for values in self.series.values() if values.is_band)

    @property
    def axis(self) -> str:
        """The x axis that suits the run, as in its figures."""
        return self._positions.axis

    def _add(self, table: MeasurementTable) -> None:
        for part in self._timeline.add(table).parts(*RUN_KEYS):
            for _, fact in part.facts:
                if opens_run(fact, self._run) and (fact.key != ATTEMPT or int(fact.value) > 1):
                    # another run or attempt repeats steps of the one before
                    self._segments.clear()
                    self._processes.begin_run()
                    self._run.clear()
                    if fact.key != ATTEMPT:
                        self._positions.begin_run()
                self._run.append(fact)
            self._add_lines(self._processes.add(self._positions.of(part)))

    def _add_lines(self, part: MeasurementTable) -> None:
        """Adds lines of one run."""
        if self._start is None:
            rows = chain.from_iterable(zip(lines.rows, lines.times, strict=True) for lines in part.lines)
            self._start = min(((row, time) for row, time in rows if time is not None), default=(0, None))[1]
        grouped = _StepsByRank(Column(), Column(), ())
        for metric, pieces in self._pieces(part).items():
            fits, steps, ranks, values, epochs, seconds = in_row_order(pieces)[1:]
            if steps is not grouped.steps or ranks is not grouped.ranks:  # metrics of a line share them
                grouped = _StepsByRank.of(steps, ranks, fits)
            self._add_values(metric, grouped, [steps, ranks, values, epochs, seconds])

    def _pieces(self, part: MeasurementTable) -> Mapping[MetricName, Sequence[Sequence[Column]]]:
        """The rows, then the columns of each metric that is drawn, in pieces."""
        series = defaultdict[MetricName, list[list[Column]]](list)
        metrics: dict[str, MetricName] = {}
        for lines in sorted(part.lines, key=lambda each: each.rows[0]):
            rest = [lines.epochs, self._seconds(lines.times)]
            for metric, steps, values in zip(lines.metrics, lines.steps, lines.values, strict=True):
                if metric == BAND or (metric.name, metric.unit) not in QUALIFIERS:
                    columns = [lines.rows, lines.fits, steps, lines.ranks, values, *rest]
                    series[metrics.setdefault(metric.name, metric)].append(columns)
        return series

    def _seconds(self, times: Column) -> Column:
        """Times since the start."""
        start = self._start
        if start is None or times.is_missing:
            return times
        return Column([None if time is None else time - start for time in times])

    def _add_values(self, metric: MetricName, grouped: _StepsByRank, columns: Sequence[Column]) -> None:
        """Adds values of a metric to the lines that they belong to: each segment has its own.

        `columns` are steps, ranks, values, epochs and seconds.
        """
        lines, segments_of = defaultdict[str, list[int]](list), self._segments[metric.name]
        for rank, indices, positions, fits, is_rising in grouped.of_each:
            segments = segments_of[rank]
            if is_rising:
                lines[self._line_of(metric.name, segments, positions[0], fits[0])] += indices
                segments.follow(positions[-1])
                continue
            for index, position, fit in zip(indices, positions, fits, strict=True):
                lines[self._line_of(metric.name, segments, position, fit)].append(index)
        in_order = sorted(lines.items(), key=lambda each: min(each[1])) if len(lines) > 1 else lines.items()
        for line, every in in_order:
            if line not in self.series:
                traits = replace(traits_of(metric.name, metric.phase, metric.unit), name=line)
                self.series[line] = NumberColumns(traits, metric.unit, is_band=metric == BAND)
            own = columns if len(lines) == 1 else [each.take(sorted(every)) for each in columns]
            self.series[line].extend(*own)

    def _line_of(self, name: str, segments: Segments, position: int, fit: int) -> str:
        """The line of a metric that the next value belongs to: each segment has its own."""
        if segments.number < MAX_SEGMENTS:
            segments.add(position, fit)
        if segments.number == 1:
            self._first_names.setdefault(name, segments.name)
        if segments.number < 2:
            return name
        if first := self._first_names[name]:
            self.labels[name] = f"{name} ({first})"
        return f"{name} ({segments.name})"


class _RankSteps(NamedTuple):
    """The steps and fits of a rank's values, at these indices; whether they rise within one fit."""

    rank: Rank
    indices: Sequence[int]
    steps: Sequence[int]
    fits: Sequence[int]
    is_rising: bool


class _StepsByRank(NamedTuple):
    """The steps and ranks of values, and the steps of each rank."""

    steps: Column
    ranks: Column
    of_each: Sequence[_RankSteps]

    @classmethod
    def of(cls, steps: Column, ranks: Column, fits: Column) -> _StepsByRank:
        """Groups steps by rank."""
        every = []
        for rank, indices in indices_by_rank(ranks).items():
            own, own_fits = steps.at(indices), fits.at(indices)
            is_rising = (fits.is_constant or len({*own_fits}) == 1) and never_falls(own)
            every.append(_RankSteps(rank, indices, own, own_fits, is_rising))
        return cls(steps, ranks, every)


class NumberColumns:
    """A segment of a metric, as columns: step (float64), rank (int32), value, epoch, time (float32).

    NaN stands for an unknown epoch or time. `is_band`: a chart draws it around the line of another metric.
    """

    def __init__(self, traits: MetricTraits, unit: str, *, is_band: bool = False) -> None:
        self.traits = traits
        self.unit = unit
        self.is_band = is_band
        self._steps = array("d")
        self._ranks = array("i")
        self._values = array("f")
        self._epochs = array("f")
        self._times = array("f")

    def __len__(self) -> int:
        return len(self._steps)

    def extend(self, steps: Column, ranks: Column, values: Column, epochs: Column, seconds: Column) -> None:
        """Adds values."""
        self._steps.extend(_packed("d", steps, _NAN))
        self._ranks.extend(_packed("i", ranks, NO_RANK))
        self._values.extend(_packed("f", values, _NAN))
        self._epochs.extend(_packed("f", epochs, _NAN))
        self._times.extend(_packed("f", seconds, _NAN))

    def columns(self, first: int, count: int) -> list[bytes]:
        """The columns' bytes for `count` values from `first`."""
        columns = (self._steps, self._ranks, self._values, self._epochs, self._times)
        return [column[first : first + count].tobytes() for column in columns]


def _packed(kind: str, column: Column, missing: float) -> array[Any]:
    """The numbers of a column, with `missing` for those that it lacks."""
    numbers = array(kind, column.fillna(missing))
    return numbers if len(numbers) == len(column) else numbers * len(column)


class RecordHistory:
    """All records of a job's growing logs in the order of writing, as columns."""

    def __init__(self) -> None:
        self._files: dict[str, MeasurementTable] = {}
        self._lock = threading.Lock()  # one thread adds, others read
        self._table: MeasurementTable | None = None  # of the records so far

    def __len__(self) -> int:
        return sum(map(len, self._files.values()))

    @property
    def table(self) -> MeasurementTable:
        """The records so far: a table that does not grow, for any thread."""
        with self._lock:
            if self._table is not None:
                return self._table
            parts, count = [part.copy() for part in self._files.values()], len(self)
        table = in_time_order(parts)
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
