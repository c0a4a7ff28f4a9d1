"""Plots a run's metrics: a panel for each quantity, with a line for each phase and rank."""

from __future__ import annotations

import string
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import cycle
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

from batchai_magics.errors import UsageError, did_you_mean
from batchai_magics.metrics.charts.figure import (
    PALETTE,
    RANK_COLOURS,
    REFERENCE,
    colour_legend,
    decorate,
    new_panels,
    serialized,
    show_message,
)
from batchai_magics.metrics.grammar.metric_names import TEST, TRAIN, VALIDATION
from batchai_magics.metrics.measurement import Record
from batchai_magics.metrics.runs.log_runs import attempt_starts
from batchai_magics.metrics.runs.mean_rates import GLOBAL_RATES
from batchai_magics.metrics.runs.metric_traits import (
    NO_PREFERENCES,
    MetricKind,
    MetricPreferences,
    is_default,
)
from batchai_magics.metrics.runs.number_frames import records_of_frame
from batchai_magics.metrics.runs.positions import AXES, ORDER
from batchai_magics.metrics.runs.run_metrics import RATE, Curve, Metric, RunMetrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


NOTHING = "There is nothing to draw: the log has no finite numbers."
MAX_PANELS = 4  # unless the user names metrics
_MEAN, _SUM = "mean of the ranks", "all ranks"
_PANEL_INCHES = 2.5
_AXIS_LABELS = {"step": "step", "epoch": "epoch", "time": "time (s)", ORDER: "value"}
_STYLES = {TRAIN: ("-", PALETTE[0]), VALIDATION: ("-", PALETTE[1]), TEST: ("--", PALETTE[2])}
_FAINT = 0.3
_MAX_LINES, _BAND = 16, 0.16  # ranks with a line each; the opacity of the band that stands for more


Chart = Sequence[Metric]


@serialized
def plot(
    source: Iterable[Record] | DataFrame,
    *,
    metrics: str | Sequence[str] = (),
    x: str = "",
    smooth: float = 0.0,
    ax: Axes | None = None,
    preferences: MetricPreferences = NO_PREFERENCES,
) -> Axes:
    """Plot the metrics of a log: a panel for each quantity, training and validation in one.

    By default, these are the first four charts, without timers, and all metrics of user-defined patterns. If
    there is nothing to draw, the figure shows a message. Steps that the summary excludes as warm-up are
    shaded, and a dotted line marks where a later attempt of the run begins. The figure does not belong to
    pyplot, which would display it a second time.

    Args:
        source: Records, or a frame of them.
        metrics: The metrics to draw, a name or several: `val_loss`, `images/sec`.
        x: `step`, `epoch` or `time` (seconds since the first number).
        smooth: The weight of earlier values in an exponential moving average, from 0 (none) to less than 1.
        ax: Axes for the first panel, with the second one on a twin axis, instead of a new figure.
        preferences: What the user has said of metrics.

    Returns:
        The Axes of the first panel, which display their figure in a notebook. `figure_png(ax)` is its PNG.

    Raises:
        UsageError: The run has no such metric, or `x` or `smooth` is invalid.
    """
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    if hasattr(source, "itertuples"):
        source = records_of_frame(cast("DataFrame", source))
    drawing = _Drawing(source, metrics=names, x=x, smooth=smooth, preferences=preferences)
    return _drawn_on(ax, drawing) if ax is not None else _drawn_in_panels(drawing)


def _drawn_in_panels(drawing: _Drawing) -> Axes:
    """Draw a panel for each chart in a new figure; returns the first."""
    charts = drawing.charts
    panels = new_panels(rows=len(charts) or 1, size=(8, _PANEL_INCHES * max(2, len(charts))))
    for panel, chart in zip(panels, charts, strict=False):
        drawing.draw(panel, chart)
        panel.label_outer()
    if charts:
        panels[-1].set_xlabel(_AXIS_LABELS[drawing.axis])
    else:
        show_message(panels[0], NOTHING)
    return panels[0]


def is_drawable(records: Iterable[Record]) -> bool:
    """Whether `plot` has anything to draw for these records."""
    return bool(_Drawing(records).charts)


def _drawn_on(ax: Axes, drawing: _Drawing) -> Axes:
    if not drawing.charts:
        show_message(ax, NOTHING)
        return ax
    drawing.draw(ax, drawing.charts[0])
    ax.set_xlabel(_AXIS_LABELS[drawing.axis])
    for chart in drawing.charts[1:2]:
        twin = ax.twinx()
        drawing.draw(twin, chart)
        twin.grid(visible=False)
        twin.spines["right"].set_visible(True)
    return ax


class _Drawing:
    """The charts of one run, and how they are drawn."""

    def __init__(
        self,
        records: Iterable[Record],
        *,
        metrics: Sequence[str] = (),
        x: str = "",
        smooth: float = 0.0,
        preferences: MetricPreferences = NO_PREFERENCES,
    ) -> None:
        if x and x not in AXES:
            raise UsageError(f"x: {x!r} must be one of {', '.join(AXES)}")
        if not 0 <= smooth < 1:
            raise UsageError(f"smooth: {smooth!r} is not at least 0 and less than 1")
        self._metrics = RunMetrics(records, preferences)
        self.axis = x or self._metrics.axis
        self._smooth, self._start = smooth, self._metrics.start or 0.0
        self.charts = (
            _chosen(self._metrics, metrics) if metrics else _charts(self._metrics, preferences.asked)
        )

    def draw(self, ax: Axes, chart: Chart) -> None:
        """Draw one chart: a line for each rank, and one over all ranks, of each phase."""
        decorate(ax, chart[0].label if len(chart) == 1 else chart[0].traits.quantity)
        if any(metric.name == RATE for metric in chart) and self.axis == AXES[0]:
            shade_warm_up(ax, self._metrics.speeds.warm_up_steps)
        for metric, style in zip(chart, _line_styles(chart), strict=True):
            self._draw_metric(ax, metric, style, is_alone=len(chart) == 1)
        if len(chart) > 1 or len(ax.lines) > 1 or ax.collections:
            _legend(ax)
        if chart[0].traits.kind is MetricKind.RATE:
            ax.set_ylim(bottom=0)
        for start in attempt_starts(self._metrics.table, self.axis):
            ax.axvline(start, label="_attempt", linestyle=":", color="grey", linewidth=1.0)

    def _draw_metric(self, ax: Axes, metric: Metric, style: tuple[str, str], *, is_alone: bool) -> None:
        if is_alone:
            self._draw_ranks(ax, metric)
        curves = metric.curves(self.axis, start=self._start)
        line, colour = style if not is_alone else ("-", PALETTE[0])
        words = (_SUM if metric.is_summed else _MEAN) if is_alone else metric.name
        if is_alone and len(curves) > 1 and any(curve.name.strip(string.digits) for curve in curves):
            for curve, curve_colour in zip(curves, cycle(PALETTE), strict=False):
                label = curve.name or words
                self._draw_segment(ax, curve, label=label, linestyle=line, color=curve_colour, linewidth=2.0)
        else:
            self._draw_curves(ax, curves, words, linestyle=line, color=colour, linewidth=2.0)

    def _draw_ranks(self, ax: Axes, metric: Metric) -> None:
        """Draw a line for each of several ranks, unless each prints the value of all; of many, a band."""
        is_rate_of_all = metric.name == RATE and self._metrics.header.is_rate_global
        if len(metric.ranks) < 2 or metric.name in GLOBAL_RATES or is_rate_of_all:
            return
        if len(metric.ranks) > _MAX_LINES:
            self._draw_band(ax, metric)
        else:
            for rank in sorted(metric.ranks, key=lambda rank: rank or 0):
                curves = metric.curves_of(rank, self.axis, start=self._start)
                colour = RANK_COLOURS[(rank or 0) % len(RANK_COLOURS)]
                self._draw_curves(ax, curves, f"rank {rank}", color=colour, linewidth=1.0)

    def _draw_band(self, ax: Axes, metric: Metric) -> None:
        """Draw the range from the lowest to the highest rank, times their number to compare it with a sum."""
        count = len(metric.ranks)
        share = count if metric.is_summed else 1
        by_x: dict[float, list[float]] = {}
        for columns in metric.ranks.values():
            for x, value, _ in zip(*columns.placed(self.axis, self._start), strict=True):
                if isfinite(value):
                    by_x.setdefault(x, []).append(value * share)
        xs = sorted(by_x)
        low, high = ([edge(by_x[x]) for x in xs] for edge in (min, max))
        label = f"range of {count} ranks" + (", each times their number" if share > 1 else "")
        ax.fill_between(xs, low, high, label=label, color=PALETTE[0], alpha=_BAND, linewidth=0)

    def _draw_curves(self, ax: Axes, curves: Sequence[Curve], words: str, **style: Any) -> None:
        """Draw the segments of a line, which have the same look; the first has the label."""
        for number, curve in enumerate(curves):
            self._draw_segment(ax, curve, label=words if number == 0 else f"_{words}", **style)

    def _draw_segment(self, ax: Axes, curve: Curve, **style: Any) -> None:
        xs, values, _ = curve
        marker = "." if len(xs) == 1 else ""
        if self._smooth:
            ax.plot(xs, values, **{**style, "alpha": _FAINT, "label": "_raw", "linewidth": 1.0})
            values = list(smoothed(values, self._smooth))
        ax.plot(xs, values, marker=marker, **style)


def _charts(metrics: RunMetrics, pattern_names: Collection[str]) -> list[Chart]:
    """The first charts with a finite value, and the charts of the user's patterns."""
    charts: list[Chart] = [chart for chart in metrics.charts if _is_finite(chart)]
    default = [chart for chart in charts if is_default([metric.traits for metric in chart])][:MAX_PANELS]
    user_charts = [chart for chart in charts if any(metric.name in pattern_names for metric in chart)]
    return [*default, *(chart for chart in user_charts if chart not in default)] or charts[:MAX_PANELS]


def _chosen(metrics: RunMetrics, names: Sequence[str]) -> list[Chart]:
    """A chart for each quantity among the metrics that the user names."""
    charts: dict[str, list[Metric]] = {}
    for name in names:
        metric = metrics.find(name)
        if metric is None:
            known = ", ".join(metrics) or "none"
            hint = did_you_mean(name, list(metrics)) or f"The run has: {known}."
            raise UsageError(f"the run has no metric {name!r}", hint=hint)
        charts.setdefault(metric.traits.quantity, []).append(metric)
    return [*charts.values()]


def _is_finite(chart: Chart) -> bool:
    values = (value for metric in chart for columns in metric.ranks.values() for value in columns.values)
    return any(map(isfinite, values))


def smoothed(values: Iterable[float], weight: float) -> Iterator[float]:
    """The exponential moving average of a line, without the bias of its start; NaN stays where it is."""
    total = share = 0.0
    for value in values:
        if isfinite(value):
            total = total * weight + value * (1 - weight)
            share = share * weight + (1 - weight)
        yield total / share if isfinite(value) else value


def shade_warm_up(ax: Axes, cut: int | None) -> None:
    """Shade the steps before the end of warm-up, if known, and label them with their number."""
    if not cut:
        return
    ax.axvspan(0, cut, color=REFERENCE, alpha=0.12, linewidth=0)
    style = {"xycoords": ("data", "axes fraction"), "va": "bottom", "fontsize": "small", "color": REFERENCE}
    words = f"warm-up, {cut:,} step{'s' * (cut != 1)}"
    ax.annotate(words, (0, 1.0), **style)  # type: ignore[arg-type]  # mixed coordinates


def _line_styles(chart: Chart) -> Iterator[tuple[str, str]]:
    """Line and colour of each metric, by its phase; a second metric of a phase gets another colour."""
    other_colours, seen_phases = iter(PALETTE[len(_STYLES) :]), set[str]()
    for metric in chart:
        line, colour = _STYLES[metric.traits.phase]
        yield line, next(other_colours, colour) if metric.traits.phase in seen_phases else colour
        seen_phases.add(metric.traits.phase)


def _legend(ax: Axes) -> None:
    """Add the legend of phases, or of ranks in the first panel and of the combined line in each."""
    handles, labels = ax.get_legend_handles_labels()
    rank_count = sum(label.startswith("rank ") for label in labels)
    if rank_count and any(panel.get_legend() for panel in ax.figure.axes if panel is not ax):
        handles, labels = handles[-1:], labels[-1:]
    elif rank_count > len(RANK_COLOURS):
        handles, labels = handles[-2:], [f"each of {rank_count} ranks", labels[-1]]
    colour_legend(ax.legend(handles, labels, loc="best", fontsize="small", frameon=False))
