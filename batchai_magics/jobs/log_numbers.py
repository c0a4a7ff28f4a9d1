"""The numbers of a job's logs as they grow: its records, and the lines of its charts as columns."""

from __future__ import annotations

import math
import threading
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from batchai_magics.metrics.column import Column
from batchai_magics.metrics.grammar.metric_names import TRAIN
from batchai_magics.metrics.measurement import ATTEMPT, FIT, RATE_UNIT, MetricName, Record
from batchai_magics.metrics.measurement_table import MeasurementTable, Rank, in_row_order, indices_by_rank
from batchai_magics.metrics.runs.fits import Segment, Segments
from batchai_magics.metrics.runs.log_records import in_time_order
from batchai_magics.metrics.runs.log_runs import PlacedLog, first_placed_line
from batchai_magics.metrics.runs.mean_rates import ProcessNumbers
from batchai_magics.metrics.runs.metric_traits import MetricTraits, traits_of
from batchai_magics.metrics.runs.positions import Positions
from batchai_magics.metrics.runs.run_metrics import RunMetrics, lines_by_metric
from batchai_magics.metrics.runs.run_starts import HEADER_KEYS
from batchai_magics.metrics.runs.steady_speed import stragglers
from batchai_magics.metrics.runs.timeline import never_falls

MAX_SEGMENTS = 20  # lines of a metric
VALUE_BYTES = 24  # with its position
NO_RANK = -1
RENUMBER_GROWTH = 1.05  # of the number of records, after which numbers that have moved are added again
WARM_UP_GROWTH = 1.3  # of the number of mean rates, after which warm-up is detected again
MAX_LIVE_WARM_UP_POINTS = 5_000  # above this, the end of warm-up is fixed until the job has ended
MAX_POINTS = 50_000  # above this, it is not detected at the end either
STRAGGLER_GROWTH, MAX_STRAGGLER_RECORDS = 1.3, 50_000  # when they are sought again, and no more
_FIRST_SEARCH = 8  # mean rates, or records, with which warm-up or stragglers are first sought
_NAN = math.nan


BAND = MetricName("jitter", RATE_UNIT, TRAIN)  # how far the single rates scatter around their mean


class LogNumbers:
    """The records of a job's growing logs, and their numbers by name, as the columns of charts.

    Steps are those of `Positions`, times seconds since the first number of the log.

    Attributes:
        generation: Increases when the log was truncated or numbers have moved on the timeline: what was sent
            before is void.
        series: The lines of charts. A metric with several segments has several.
        labels: The labels of lines whose label is not their name: the first of several segments of a metric
            is labelled with its heading.
        attempts: The steps at which later attempts begin, by attempt.
        warm_up: The steps until the end of warm-up; None if it is unknown.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._files: dict[str, MeasurementTable] = {}
        self._table: MeasurementTable | None = None  # of the records so far
        self._lock = threading.Lock()  # one thread adds records, others read their table
        self._forget_log()

    def _forget_log(self) -> None:
        with self._lock:
            self._files.clear()
            self._table = None
        self.warm_up: int | None = None
        self._renumber_due = 0
        self._warm_up_due = self._stragglers_due = _FIRST_SEARCH
        self._stragglers: tuple[int, ...] = ()
        self._processes = ProcessNumbers()
        self._forget_lines()

    def _forget_lines(self) -> None:
        self._has_moved = False  # on the timeline, since they were placed
        self._start: float | None = None  # time of the first number
        self.series: dict[str, NumberColumns] = {}
        self.labels: dict[str, str] = {}
        self.attempts: dict[int, int] = {}
        self._attempt = 0  # the latest one, until it has a step
        self._log, self._positions = PlacedLog(), Positions()
        self._processes = ProcessNumbers(are_numbered=self._processes.are_several)
        self._segments = defaultdict[str, defaultdict[Rank, Segments]](
            lambda: defaultdict(lambda: Segments(self._log.fit_names, MAX_SEGMENTS))
        )
        self._first_names: dict[str, str] = {}  # of the first segments of metrics

    def __len__(self) -> int:
        """How many records there are."""
        return sum(map(len, self._files.values()))

    def add(self, records: Iterable[Record], file: str = "") -> bool:
        """Adds the next records of a file; returns whether another metric or attempt begins with them."""
        table, known = MeasurementTable.of(records), len(self.metrics) + len(self.attempts)
        if self.metrics:  # which another file may have printed below a heading that comes now
            self._has_moved |= any(fact.key in (FIT, *HEADER_KEYS) for _, fact in table.facts)
        with self._lock:
            self._has_moved |= bool(self._files) and file not in self._files
            self._files.setdefault(file, MeasurementTable()).extend(table)
            self._table = None
        self._add_numbers(table)
        return len(self.metrics) + len(self.attempts) > known

    def refresh(self, *, is_last: bool = False) -> bool:
        """Updates what is derived from all records, less often as their number grows.

        Numbers that have moved on the timeline are added again, and the end of warm-up is detected.

        Args:
            is_last: No more records will come.

        Returns:
            Whether anything has changed.
        """
        is_due = is_last or self._log.is_outdated or len(self) >= self._renumber_due
        has_moved = is_due and (self._has_moved or (is_last and self._log.has_attempts))
        if has_moved:
            self._renumber_due = int(len(self) * RENUMBER_GROWTH)
            self.generation += 1
            self._forget_lines()
            self._log = PlacedLog(self.table)
            self._add_placed(self._log.table)
            self._has_moved = self._processes.has_moved
        before = self.warm_up
        self._find_warm_up(is_last=is_last)
        return has_moved or self.warm_up != before

    def restart(self) -> None:
        """Drops everything: the log was truncated."""
        self.generation += 1
        self._forget_log()

    @property
    def table(self) -> MeasurementTable:
        """The records so far in the order of writing: a table that does not grow, for any thread."""
        with self._lock:
            if self._table is not None:
                return self._table
            parts, count = [part.copy() for part in self._files.values()], len(self)
        table = in_time_order(parts)
        with self._lock:
            if count == len(self):
                self._table = table
        return table

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

    @property
    def stragglers(self) -> tuple[int, ...]:
        """The slow ranks, which are sought less often as the number of records grows."""
        if self._stragglers_due <= len(self) <= MAX_STRAGGLER_RECORDS:
            self._stragglers_due = int(len(self) * STRAGGLER_GROWTH) + 1
            self._stragglers = stragglers(RunMetrics(self.table).speeds)
        return self._stragglers

    def _find_warm_up(self, *, is_last: bool) -> None:
        """Detects the end of warm-up."""
        count = self.mean_rates
        is_due = count <= MAX_POINTS if is_last else self._warm_up_due <= count <= MAX_LIVE_WARM_UP_POINTS
        if count and is_due:
            self._warm_up_due = int(count * WARM_UP_GROWTH)
            self.warm_up = RunMetrics(self.table).speeds.warm_up_steps

    def _add_numbers(self, table: MeasurementTable) -> None:
        """Adds the numbers of the next records to their lines."""
        lines = self._log.add(table)
        if not self._log.is_outdated:  # else, they are added by `refresh`
            self._add_placed(lines)
        self._has_moved |= self._log.has_moved or self._processes.has_moved

    def _add_placed(self, lines: MeasurementTable) -> None:
        """Adds the next lines of the log, which have the steps of its timeline."""
        for part in lines.parts(ATTEMPT):
            for _, fact in part.facts:
                if fact.key == ATTEMPT:
                    self._attempt = int(fact.value)
            placed = self._positions.of(part)
            self._mark_attempt(part, placed)
            self._add_lines(self._processes.add(placed))

    def _mark_attempt(self, part: MeasurementTable, placed: MeasurementTable) -> None:
        """Marks where the latest attempt begins: at the first of its numbers with a step or an epoch."""
        if first := first_placed_line(part) if self._attempt > 1 else None:
            lines, index = first
            steps = next(columns.steps[0] for columns in placed.lines if columns.metrics == lines.metrics)
            self.attempts[self._attempt] = steps[index]
            self._attempt = 0

    def _add_lines(self, part: MeasurementTable) -> None:
        """Adds lines that have a step each."""
        if self._start is None:
            rows = chain.from_iterable(zip(lines.rows, lines.times, strict=True) for lines in part.lines)
            self._start = min(((row, time) for row, time in rows if time is not None), default=(0, None))[1]
        timed = part.with_lines(replace(lines, times=self._seconds(lines.times)) for lines in part.lines)
        steps, ranks, by_rank = Column(), Column(), list[_RankSteps]()
        for metric, metric_lines in lines_by_metric(timed, qualifiers=[BAND]).items():
            pieces = (
                [part.rows, part.fits, part.steps[i], part.ranks, part.values[i], part.epochs, part.times]
                for part, i in metric_lines
            )
            _, fits, *columns = in_row_order([*pieces])
            if columns[0] is not steps or columns[1] is not ranks:  # metrics of a line share them
                steps, ranks = columns[:2]
                by_rank = [*_steps_by_rank(steps, ranks, fits)]
            self._add_values(metric, by_rank, columns)

    def _seconds(self, times: Column) -> Column:
        """Times since the start."""
        start = self._start
        if start is None or times.is_missing:
            return times
        return Column([None if time is None else time - start for time in times])

    def _add_values(
        self, metric: MetricName, by_rank: Iterable[_RankSteps], columns: Sequence[Column]
    ) -> None:
        """Adds values of a metric to the lines that they belong to: each segment has its own.

        `columns` are steps, ranks, values, epochs and seconds.
        """
        lines, segments_of = defaultdict[str, list[int]](list), self._segments[metric.name]
        for rank, indices, steps, fits, is_rising in by_rank:
            for segment in segments_of[rank].split(steps, fits, is_rising=is_rising):
                lines[self._line_of(metric.name, segment)] += indices[segment.begin : segment.end]
        in_order = sorted(lines.items(), key=lambda item: min(item[1])) if len(lines) > 1 else lines.items()
        for line, line_indices in in_order:
            if line not in self.series:
                traits = replace(traits_of(metric.name, metric.phase, metric.unit), name=line)
                self.series[line] = NumberColumns(traits, metric.unit, is_band=metric == BAND)
            line_columns = (
                columns if len(lines) == 1 else [column.take(sorted(line_indices)) for column in columns]
            )
            self.series[line].extend(*line_columns)

    def _line_of(self, metric: str, segment: Segment) -> str:
        """The line of a segment."""
        if segment.number == 1:
            self._first_names.setdefault(metric, segment.name)
            return metric
        if first := self._first_names[metric]:
            self.labels[metric] = f"{metric} ({first})"
        return f"{metric} ({segment.name})"


class _RankSteps(NamedTuple):
    """The steps and fits of a rank's values, at these indices; whether they rise within one fit."""

    rank: Rank
    indices: Sequence[int]
    steps: Sequence[int]
    fits: Sequence[int]
    is_rising: bool


def _steps_by_rank(steps: Column, ranks: Column, fits: Column) -> Iterator[_RankSteps]:
    for rank, indices in indices_by_rank(ranks).items():
        rank_steps, rank_fits = steps.at(indices), fits.at(indices)
        is_rising = (fits.is_constant or len({*rank_fits}) == 1) and never_falls(rank_steps)
        yield _RankSteps(rank, indices, rank_steps, rank_fits, is_rising)


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
