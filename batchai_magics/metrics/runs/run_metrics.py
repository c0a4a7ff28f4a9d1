"""All metrics of a run by name: what they are, and their points. Every view of a run uses this model."""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, compress, islice, zip_longest
from operator import itemgetter, lt
from typing import NamedTuple, cast

from batchai_magics.metrics.measurement import RATE_UNIT, TOTAL, Fact, MetricName, Record
from batchai_magics.metrics.measurement_table import LineColumns, MeasurementTable, Rank, by_rank
from batchai_magics.metrics.runs.fits import Segments, fit_names
from batchai_magics.metrics.runs.log_runs import RunHeader, on_timeline, run_header
from batchai_magics.metrics.runs.mean_rates import RatesByRank, has_mean_rates, mean_rates, with_ranks
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
from batchai_magics.metrics.runs.positions import AXES, ORDER, Positions
from batchai_magics.metrics.runs.run_starts import RunStarts
from batchai_magics.metrics.runs.steady_speed import Speeds

RATE = "images_per_sec"
"""The speed of tf_cnn_benchmarks."""

QUALIFIERS = frozenset([("uncertainty", RATE_UNIT), ("jitter", RATE_UNIT), ("eval_examples", "examples")])
"""Names and units of numbers that qualify others and are no metrics: how exact a speed is."""


class MetricColumns(NamedTuple):
    """The points of one rank in file order, as columns of equal length.

    `steps` are those of `Positions`, `times` are in seconds since 1970; None is what the log lacks. `fits`
    are numbers of `fit_names`.
    """

    steps: Sequence[int]
    epochs: Sequence[float | None]
    times: Sequence[float | None]
    values: Sequence[float]
    fits: Sequence[int]
    fit_names: Sequence[str]

    def placed(self, axis: str, start: float = 0.0) -> tuple[Sequence[float], Sequence[float], Sequence[int]]:
        """Positions, values and fits of the points that one of AXES can place.

        `start` is the time that counts as 0.
        """
        positions = self._positions_on(axis)
        if None not in positions:
            return _known(positions, axis, start), self.values, self.fits
        is_placed = [position is not None for position in positions]
        values, fits = [*compress(self.values, is_placed)], [*compress(self.fits, is_placed)]
        return _known([*compress(positions, is_placed)], axis, start), values, fits

    def _positions_on(self, axis: str) -> Sequence[float | None]:
        if axis in ("step", ORDER):
            return self.steps
        return self.epochs if axis == "epoch" else self.times

    def curves(self, axis: str, start: float = 0.0) -> list[Curve]:
        """The last value at each position, of each segment in file order."""
        positions, values, fits = self.placed(axis, start)
        if all(map(lt, positions, islice(positions, 1, None))):
            return [Curve(positions, values, self.fit_names[fits[0]] if fits else "")]
        curves = []
        for begin, end, _, name in Segments(self.fit_names).split(positions, fits, is_rising=False):
            lasts = dict(zip(positions[begin:end], values[begin:end], strict=True))
            curves.append(Curve([*lasts], [*lasts.values()], name))
        return curves

    def positions_by_step(self, axis: str, start: float = 0.0) -> list[dict[float, float]]:
        """Step → position on another axis, where it is known, of each segment of `curves("step")`."""
        positions = [math.nan if position is None else position for position in self._positions_on(axis)]
        curves = self._replace(values=_known(positions, axis, start)).curves(AXES[0])
        return [{step: at for step, at in curve.points.items() if not math.isnan(at)} for curve in curves]


def _known(positions: Sequence[float | None], axis: str, start: float) -> Sequence[float]:
    known = cast("Sequence[float]", positions)  # None was left out, or is NaN
    return [position - start for position in known] if axis == "time" else known


class Curve(NamedTuple):
    """Values by position, which never falls; the segment is named by its heading, or its number."""

    positions: Sequence[float]
    values: Sequence[float]
    name: str = ""

    @property
    def points(self) -> dict[float, float]:
        """The last value at each position."""
        return dict(zip(self.positions, self.values, strict=True))


@dataclass(frozen=True)
class Metric:
    """A metric of a run.

    Attributes:
        traits: What its name tells: quantity, phase, kind.
        unit: Its unit, as printed.
        direction: Which values are better.
        ranks: Its points by rank.
        is_summed: Whether each rank prints its own share, so that ranks add up.
        total: What the program printed of all ranks at the end: `total images/sec`.
        share: What scales its figures to all processes, including any that the log lacks.
        steady: Its mean over the run, if the program printed cumulative means.
        axis: The x axis that suits its run: steps, epochs where the log tells no step, else ORDER.
    """

    traits: MetricTraits
    unit: str
    direction: Direction
    ranks: Mapping[Rank, MetricColumns] = field(repr=False)
    is_summed: bool = False
    total: float | None = None
    share: float = 1
    steady: float | None = None
    axis: str = AXES[0]

    @property
    def name(self) -> str:
        """Its name, as records have it."""
        return self.traits.name

    @property
    def label(self) -> str:
        """Its name for display."""
        return self.traits.label

    def curves(self, axis: str = "", *, start: float = 0.0) -> list[Curve]:
        """The value over all ranks by position, of each segment in the order of the log.

        A segment is another fold, seed or fit: it begins where the position goes back, or comes again below
        the heading of another fit. The last value that a rank prints at a position of a segment holds, but
        where the log tells no steps, each value of an epoch counts. Ranks are averaged, but summed where each
        prints its own rate.

        Args:
            axis: One of AXES, by default the one that suits the run.
            start: The time that counts as 0.
        """
        lines = [self.curves_of(rank, axis, start=start) for rank in self.ranks]
        if len(lines) == 1:
            return lines[0]
        return [self._over_ranks([part for part in parts if part]) for parts in zip_longest(*lines)]

    def curves_of(self, rank: Rank, axis: str = "", *, start: float = 0.0) -> list[Curve]:
        """The value of a rank by position, of each segment."""
        columns, axis = self.ranks[rank], axis or self.axis
        if not axis == self.axis == AXES[1]:
            return columns.curves(axis, start)
        pairs = zip(columns.curves(AXES[0]), columns.positions_by_step(axis), strict=True)
        return [Curve([epochs[step] for step in curve.positions], *curve[1:]) for curve, epochs in pairs]

    def _over_ranks(self, lines: Sequence[Curve]) -> Curve:
        values = defaultdict[tuple[float, int], list[float]](list)  # by position, and number there
        for line in lines:
            counts = defaultdict[float, int](int)
            for position, value in zip(line.positions, line.values, strict=True):
                values[position, counts[position]].append(value)
                counts[position] += 1
        keys = sorted(values)
        if self.is_summed:  # at steps that all ranks of the segment have printed
            keys = [key for key in keys if len(values[key]) == len(lines)]
        sums = [sum(values[key]) / (1 if self.is_summed else len(values[key])) for key in keys]
        return Curve([position for position, _ in keys], sums, lines[0].name)

    def last_segment(self) -> dict[float, float]:
        """The last value over all ranks at each position, ascending, of the last segment."""
        return self.curves()[-1].points

    def positions_by_step(self, axis: str, start: float = 0.0) -> list[dict[float, float]]:
        """Step → position on another axis of each of its curves, as its longest rank logs them."""
        longest = max(self.ranks.values(), key=lambda columns: len(columns.values))
        return longest.positions_by_step(axis, start)

    @cached_property
    def summary(self) -> MetricSummary | None:
        """The first, last and best of its values over all ranks."""
        curves = [curve for curve in self.curves() if len(curve.values)]
        if not curves:
            return None
        best_step, best = self._best_point(curves) or (None, None)
        values = array("d", chain.from_iterable(curve.values for curve in curves))
        mean = self.steady
        if self.traits.is_rate and mean is None:
            rates = array("d", filter(math.isfinite, values))
            mean = math.fsum(rates) / len(rates) if rates else None
        is_placed = self.axis != ORDER
        return MetricSummary(
            name=self.name,
            label=self.label,
            quantity=self.traits.quantity,
            phase=self.traits.phase,
            unit=self.unit,
            direction=self.direction,
            count=len(values),
            first=self.share * curves[0].values[0],
            last=self.share * curves[-1].values[-1],
            last_step=curves[-1].positions[-1] if is_placed else None,
            best=None if best is None else self.share * best,
            best_step=best_step if is_placed else None,
            mean=mean,
            total=self.total,
            axis=self.axis,
        )

    def _best_point(self, curves: Iterable[Curve]) -> tuple[float, float] | None:
        """The first point with the best finite value."""
        if self.direction is Direction.UNKNOWN:
            return None
        choose = min if self.direction is Direction.FALLS else max
        points = chain.from_iterable(zip(curve.positions, curve.values, strict=True) for curve in curves)
        finite = (point for point in points if math.isfinite(point[1]))
        return choose(finite, key=itemgetter(1), default=None)


class RunMetrics(Mapping[str, Metric]):
    """The metrics of a log by name, in the order in which they are shown: the headline first.

    Attributes:
        table: The records of the log without what later attempts repeat, with the steps of the timeline.
        run: Those of the last run in it that tells a rate or a loss: speeds are those of one run.
        rates: The mean rates of its processes.
    """

    def __init__(self, records: Iterable[Record], preferences: MetricPreferences = NO_PREFERENCES) -> None:
        self.table = with_ranks(on_timeline(records))
        self.run, self.rates = _last_with_rates([*RunStarts().split(self.table)])
        self._preferences = preferences

    def __getitem__(self, name: str) -> Metric:
        return self._metrics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._metrics)

    def __len__(self) -> int:
        return len(self._metrics)

    def __repr__(self) -> str:
        return f"RunMetrics({', '.join(self._metrics)})"

    @cached_property
    def _metrics(self) -> Mapping[str, Metric]:
        positions = Positions()
        series, axis = _series(positions.of(self.table)), positions.axis
        direction = self._preferences.direction
        metrics = {
            traits.name: Metric(traits, unit, direction(traits), ranks, traits.is_summed, axis=axis)
            for traits, unit, ranks in series
        }
        if RATE in metrics:
            metrics[RATE] = self._of_all_processes(metrics[RATE])
        order = ordered((metric.traits for metric in metrics.values()), self._preferences)
        return {traits.name: metrics[traits.name] for traits in order}

    def _of_all_processes(self, rate: Metric) -> Metric:
        """The images/sec; each process may print its own mean up to each step."""
        total = None if self.total is None else float(self.total.value)
        if total is not None and self.speeds.is_of_one_rank(total):
            total = None
        rate = replace(rate, total=total, is_summed=not self.header.is_rate_global)
        if not has_mean_rates(self.run):
            return rate
        steady = self.speeds.total.images_per_sec if self.speeds.total else None
        return replace(rate, share=1 if self.header.is_rate_global else self.speeds.share, steady=steady)

    @cached_property
    def header(self) -> RunHeader:
        """What the header of the run tells."""
        return run_header(self.run, ranks_seen=len(self.rates))

    @cached_property
    def speeds(self) -> Speeds:
        """The steady speeds of its processes."""
        return Speeds(self.rates, ranks=self.header.ranks, is_rate_global=self.header.is_rate_global)

    @property
    def last_step(self) -> int:
        """The last step with a rate or a loss, from 1; the last epoch, if the log tells epochs only.

        Lines are counted if they tell neither. A progress bar shows several losses at one step, so the lines
        are more, or fewer, than the steps.
        """
        if self.axis == AXES[1]:
            return self._last_epoch
        metrics = self.values() if self.axis == AXES[0] else ()
        shown = {metric.name: metric for metric in metrics if metric.name == "loss" or metric.traits.is_rate}
        curves = chain.from_iterable(metric.curves() for metric in shown.values())
        last = max(chain.from_iterable(curve.positions for curve in curves), default=None)
        if last is None:
            return self.speeds.last_step
        columns = (pair for lines in self.table.lines for pair in zip(lines.names, lines.steps, strict=True))
        is_from_0 = any(name in shown and 0 in steps for name, steps in columns)
        return int(last) + is_from_0

    @property
    def _last_epoch(self) -> int:
        curves = chain.from_iterable(metric.curves() for metric in self.values())
        epochs = {*filter(math.isfinite, chain.from_iterable(curve.positions for curve in curves))}
        is_counted_from_0 = 0 in epochs and all(float(epoch).is_integer() for epoch in epochs)
        return math.ceil(max(epochs, default=0)) + is_counted_from_0

    @property
    def total(self) -> Fact | None:
        """The last total that it has printed."""
        return next((fact for _, fact in reversed(self.run.facts) if fact.key == TOTAL), None)

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
        """The x axis that suits the run: steps, epochs where the log tells no step, else ORDER."""
        return next((metric.axis for metric in self._metrics.values()), AXES[0])

    @property
    def start(self) -> float | None:
        """The time of the first number, in seconds since 1970; None if unknown."""
        firsts = (columns.times[0] for metric in self._metrics.values() for columns in metric.ranks.values())
        return min((time for time in firsts if time is not None), default=None)

    def find(self, name: str) -> Metric | None:
        """The metric that the user means by a name, as `find_metric` finds it."""
        return self._metrics.get(find_metric(self._metrics, name))


def _last_with_rates(runs: Sequence[MeasurementTable]) -> tuple[MeasurementTable, RatesByRank]:
    """The last run with mean rates, and these; without any, the last run."""
    for run in reversed(runs):
        if rates := mean_rates(run):
            return run, rates
    return runs[-1], {}


def _series(run: MeasurementTable) -> Iterator[tuple[MetricTraits, str, Mapping[Rank, MetricColumns]]]:
    """Each metric with its unit and its points by rank, in file order."""
    names = fit_names(fact for _, fact in run.facts)
    for (name, unit, phase), metric_lines in lines_by_metric(run).items():
        columns = by_rank(
            (lines, [lines.steps[i], lines.epochs, lines.times, lines.values[i], lines.fits])
            for lines, i in metric_lines
        )
        ranks = {
            rank: MetricColumns(steps, epochs, times, values, fits, names)
            for rank, (steps, epochs, times, values, fits) in columns.items()
        }
        yield traits_of(name, phase, unit), unit, ranks


def lines_by_metric(
    run: MeasurementTable, qualifiers: Collection[MetricName] = ()
) -> Mapping[MetricName, Sequence[tuple[LineColumns, int]]]:
    """The lines that have each metric, with its index among theirs, in file order.

    Numbers that qualify others are left out, but for these `qualifiers`.
    """
    by_metric, firsts = defaultdict[MetricName, list[tuple[LineColumns, int]]](list), dict[str, MetricName]()
    for lines in sorted(run.lines, key=lambda lines: lines.rows[0]):
        for index, metric in enumerate(lines.metrics):
            if metric in qualifiers or (metric.name, metric.unit) not in QUALIFIERS:
                by_metric[firsts.setdefault(metric.name, metric)].append((lines, index))
    return by_metric
