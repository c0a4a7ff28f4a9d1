"""All metrics of a run by name: what they are, and their points. Every view of a run uses this model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from batchai_magics.metrics.grammar.metric_names import TRAIN
from batchai_magics.metrics.record import (
    EvalRecord,
    PatternRecord,
    Record,
    StepRecord,
    TotalRecord,
    ValueRecord,
)
from batchai_magics.metrics.runs.metric_summary import MetricSummary
from batchai_magics.metrics.runs.metric_traits import (
    NO_PREFERENCES,
    Direction,
    MetricPreferences,
    MetricTraits,
    charts_of,
    find_metric,
    headline_of,
    ordered,
    traits_of,
)
from batchai_magics.metrics.runs.step_counter import StepCounter
from batchai_magics.metrics.runs.step_series import by_rank, runs

AXES = ("step", "epoch", "time")
"""The x axes of a chart: steps over the whole run, epochs, seconds since the first number."""

RATE, RATE_UNIT = "images_per_sec", "images/sec"
"""The name and unit of the speed of tf_cnn_benchmarks."""

STEP_UNITS = {RATE: RATE_UNIT, "loss": "", "top_1": "fraction", "top_5": "fraction"}
"""The units of the numbers on a step line, by the field of its record."""

EVALUATION_UNITS = {"examples_per_sec": "examples/sec", "top_1": "fraction", "top_5": "fraction"}
"""The units of the numbers of an evaluation, by the field of its record; metrics are named `eval_…`."""

Rank = int | None


class MetricColumns(NamedTuple):
    """The points of one rank in file order, as columns of equal length.

    `steps` are counted over the whole run, `times` are in seconds since 1970; None is what the log lacks.
    """

    steps: Sequence[int | None]
    epochs: Sequence[float | None]
    times: Sequence[float | None]
    values: Sequence[float]

    def positions(self, axis: str) -> Sequence[float | None]:
        """The column of one of AXES; where the log tells no step, values are numbered."""
        if axis == "time":
            return self.times
        if axis == "epoch":
            return self.epochs
        return [number if step is None else step for number, step in enumerate(self.steps, 1)]


@dataclass(frozen=True)
class Metric:
    """A metric of a run.

    Attributes:
        traits: What its name tells: quantity, phase, kind.
        unit: Its unit, as printed.
        direction: Which values are better.
        ranks: Its points by rank.
        total: What the program printed of all ranks at the end: `total images/sec`.
        axis: The x axis that suits its run: steps, or epochs where the log tells no step.
    """

    traits: MetricTraits
    unit: str
    direction: Direction
    ranks: Mapping[Rank, MetricColumns] = field(repr=False)
    total: float | None = None
    axis: str = AXES[0]

    @property
    def name(self) -> str:
        """Its name, as records have it."""
        return self.traits.name

    @property
    def label(self) -> str:
        """Its name for display."""
        return self.traits.label

    def points(self, axis: str = "", *, start: float = 0.0) -> dict[Rank, list[tuple[float, float]]]:
        """Position and value by rank, in file order; points that the axis cannot place are left out.

        Args:
            axis: One of AXES, by default the one that suits the run.
            start: The time that counts as 0.
        """
        axis = axis or self.axis
        origin = start if axis == "time" else 0
        return {
            rank: [
                (x - origin, value)
                for x, value in zip(columns.positions(axis), columns.values, strict=True)
                if x is not None
            ]
            for rank, columns in self.ranks.items()
        }

    def combined(self, axis: str = "", *, start: float = 0.0) -> dict[float, float]:
        """The value over all ranks by position, ascending.

        This is the mean of the ranks that printed one, but the sum of all ranks where each prints its own
        rate.
        """
        return combined_points(self.points(axis, start=start).values(), is_sum=self.traits.is_summed)

    @cached_property
    def summary(self) -> MetricSummary | None:
        """Its first, last and best values over all ranks."""
        values = self.combined()
        return MetricSummary.of(
            self.traits, self.unit, self.direction, values, total=self.total, axis=self.axis
        )


def combined_points(series: Iterable[Sequence[tuple[float, float]]], *, is_sum: bool) -> dict[float, float]:
    """The points of several ranks as one line; see `Metric.combined`."""
    lines = [points for points in series if points]
    if len(lines) == 1 and all(before[0] < after[0] for before, after in pairwise(lines[0])):
        return dict(lines[0])
    at: defaultdict[float, list[float]] = defaultdict(list)
    for points in lines:
        for x, value in points:
            at[x].append(value)
    if is_sum and len(lines) > 1:
        return {x: sum(values) for x, values in sorted(at.items()) if len(values) >= len(lines)}
    return {x: sum(values) / len(values) for x, values in sorted(at.items())}


class RunMetrics(Mapping[str, Metric]):
    """The metrics of one run by name, in the order in which they are shown: the headline first."""

    def __init__(self, metrics: Iterable[Metric], preferences: MetricPreferences = NO_PREFERENCES) -> None:
        found = {metric.name: metric for metric in metrics}
        order = ordered((metric.traits for metric in found.values()), preferences)
        self._metrics = {traits.name: found[traits.name] for traits in order}
        self._preferences = preferences

    def __getitem__(self, name: str) -> Metric:
        return self._metrics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._metrics)

    def __len__(self) -> int:
        return len(self._metrics)

    def __repr__(self) -> str:
        return f"RunMetrics({', '.join(self._metrics)})"

    @property
    def headline(self) -> Metric | None:
        """The metric that stands for the run; None without metrics, or with timers only."""
        name = headline_of((metric.traits for metric in self._metrics.values()), self._preferences)
        return self._metrics.get(name)

    @property
    def charts(self) -> list[tuple[Metric, ...]]:
        """The charts, in order: each has the phases of one quantity, training first."""
        charts = charts_of((metric.traits for metric in self._metrics.values()), self._preferences)
        return [tuple(self._metrics[traits.name] for traits in chart) for chart in charts]

    @property
    def summaries(self) -> tuple[MetricSummary, ...]:
        """The figures of all metrics, in order."""
        return tuple(metric.summary for metric in self._metrics.values() if metric.summary)

    @property
    def axis(self) -> str:
        """The x axis that suits the run: steps, or epochs where the log tells no step."""
        return next((metric.axis for metric in self._metrics.values()), AXES[0])

    @property
    def start(self) -> float | None:
        """The time of the first number, in seconds since 1970; None if unknown."""
        firsts = (each.times[0] for metric in self._metrics.values() for each in metric.ranks.values())
        return min((time for time in firsts if time is not None), default=None)

    def find(self, asked: str) -> Metric | None:
        """The metric that the user means by a name, as `find_metric` finds it."""
        return self._metrics.get(find_metric(self._metrics, asked))


def run_metrics(records: Iterable[Record], preferences: MetricPreferences = NO_PREFERENCES) -> RunMetrics:
    """The metrics of the last run in these records."""
    run = runs(records)[-1]
    series = [*_of_steps(run), *_of_evaluations(run), *_of_values(run)]
    total = next((r.images_per_sec for r in reversed(run) if isinstance(r, TotalRecord)), None)
    by_name: dict[MetricTraits, dict[Rank, MetricColumns]] = {}
    units: dict[MetricTraits, str] = {}
    for traits, unit, rank, columns in series:
        by_name.setdefault(traits, {})[rank] = columns
        units.setdefault(traits, unit)
    axis = _axis([columns for _, _, _, columns in series])
    metrics = (
        Metric(traits, units[traits], preferences.direction(traits), ranks, _total_of(traits, total), axis)
        for traits, ranks in by_name.items()
    )
    return RunMetrics(metrics, preferences)


_Series = tuple[MetricTraits, str, Rank, MetricColumns]


def _axis(columns: Sequence[MetricColumns]) -> str:
    has_steps = any(each.steps[0] is not None for each in columns)
    is_by_epoch = columns and not has_steps and all(each.epochs[0] is not None for each in columns)
    return AXES[1] if is_by_epoch else AXES[0]


def _total_of(traits: MetricTraits, total: float | None) -> float | None:
    return total if traits.name == RATE else None


def _of_steps(run: Sequence[Record]) -> Iterator[_Series]:
    """The metrics of tf_cnn_benchmarks' step lines."""
    steps = [record for record in run if isinstance(record, StepRecord)]
    for rank, records in by_rank(steps).items() if steps else ():
        for name, unit in STEP_UNITS.items():
            told = [record for record in records if getattr(record, name) is not None]
            if told:
                columns = _columns(told, [getattr(record, name) for record in told])
                yield traits_of(name, unit=unit), unit, rank, columns


def _of_evaluations(run: Sequence[Record]) -> Iterator[_Series]:
    """The metrics of tf_cnn_benchmarks' evaluations."""
    evaluations: defaultdict[Rank, list[EvalRecord]] = defaultdict(list)
    for record in run:
        if isinstance(record, EvalRecord):
            evaluations[record.rank].append(record)
    for rank, records in evaluations.items():
        for name, unit in EVALUATION_UNITS.items():
            told = [record for record in records if getattr(record, name) is not None]
            if told:
                columns = _columns(told, [getattr(record, name) for record in told])
                yield traits_of(f"eval_{name}", unit=unit), unit, rank, columns


def _columns(records: Sequence[StepRecord | EvalRecord], values: Sequence[float]) -> MetricColumns:
    nothing = [None] * len(records)
    return MetricColumns([r.step for r in records], nothing, [r.wall_time for r in records], values)


def _of_values(run: Sequence[Record]) -> Iterator[_Series]:
    """The metrics of other programs, and of user-defined patterns."""
    groups: defaultdict[tuple[str, Rank], list[ValueRecord | PatternRecord]] = defaultdict(list)
    for record in run:
        if isinstance(record, (ValueRecord, PatternRecord)):
            groups[record.name, record.rank].append(record)
    steps = _counted_steps(run, groups.values())
    for (name, rank), records in groups.items():
        first = records[0]
        unit, phase = (first.unit, first.phase) if isinstance(first, ValueRecord) else ("", "")
        columns = MetricColumns(
            steps[name, rank] if steps else [record.step for record in records],
            [getattr(record, "epoch", None) for record in records],
            [record.wall_time for record in records],
            [record.value for record in records],
        )
        yield traits_of(name, phase, unit), unit, rank, columns


def _counted_steps(
    run: Iterable[Record], groups: Iterable[Sequence[ValueRecord | PatternRecord]]
) -> Mapping[tuple[str, Rank], Sequence[int | None]] | None:
    """The steps of each metric and rank, counted over the run; None if the log counts them like that."""
    if all(map(_has_plain_steps, groups)):
        return None
    counter = StepCounter()
    steps: defaultdict[tuple[str, Rank], list[int | None]] = defaultdict(list)
    for record in run:
        if isinstance(record, ValueRecord):
            place = counter.place(record.rank, record.step, record.epoch, record.phase)
            steps[record.name, record.rank].append(place)
        elif isinstance(record, PatternRecord):
            steps[record.name, record.rank].append(record.step)
    return steps


def _has_plain_steps(records: Sequence[ValueRecord | PatternRecord]) -> bool:
    """Whether each value has a step after the one before it; a pattern's steps are taken as they are."""
    first = records[0]
    if isinstance(first, PatternRecord):
        return True
    steps = [record.step for record in records]
    if None in steps or (first.phase != TRAIN and first.epoch is not None):
        return False
    return all(before < after for before, after in pairwise(steps))  # type: ignore[operator]  # no step is None
