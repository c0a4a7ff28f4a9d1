"""Charts of several runs: their metrics, one colour per run, and the metric of each trial of a sweep."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from batchai_magics.errors import UsageError
from batchai_magics.metrics.charts.figure import (
    MARKERS,
    PALETTE,
    colour_legend,
    decorate,
    new_panels,
    serialized,
    show_message,
)
from batchai_magics.metrics.runs.compared_runs import Run
from batchai_magics.metrics.runs.mean_rates import RatesByRank, combined_rates, has_mean_rates
from batchai_magics.metrics.runs.metric_traits import (
    NO_PREFERENCES,
    MetricPreferences,
    MetricTraits,
    charts_of,
    find_metric,
    is_default,
)
from batchai_magics.metrics.runs.positions import AXES, ORDER
from batchai_magics.metrics.runs.run_metrics import RATE, Curve, RunMetrics
from batchai_magics.metrics.runs.run_summary import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes


OVER = ("step", "epoch", "time", "images", "seconds")
"""The x axes of an overlay: `time` is measured since the first number, `seconds` follow from the speed."""

LOGGED_AXES = AXES[1:]
"""The axes whose positions the log may print with each number."""

XValues = Mapping[float, float]


@dataclass(frozen=True)
class Overlay:
    """The curves of a run over all processes, by step; each metric has one for each of its segments.

    Attributes:
        name: The name of the run.
        x_values: Step → position, for those of OVER that follow from the step.
        metrics: Every metric's curves.
        logged: Step → position of each curve, for each of `LOGGED_AXES` that the log tells.
    """

    name: str
    x_values: Mapping[str, XValues]
    metrics: Mapping[MetricTraits, Sequence[Curve]]
    logged: Mapping[str, Mapping[MetricTraits, Sequence[XValues]]]

    def check(self, over: str) -> None:
        """UsageError if the log does not determine positions over `over`, or it is invalid."""
        if over not in OVER:
            raise UsageError(f"over: {over!r} must be one of {', '.join(OVER)}")
        if over not in self.x_values and over not in self.logged:
            raise UsageError(f"the log of {self.name} tells no {_NEEDS[over]}", hint="Draw it over step.")

    def lines(self, traits: MetricTraits, over: str) -> list[tuple[Curve, XValues]]:
        """The curves of a metric, each with the positions of its steps."""
        curves = self.metrics.get(traits, ())
        if over in self.logged:
            return [*zip(curves, self.logged[over].get(traits, ()), strict=False)]
        return [(curve, self.x_values[over]) for curve in curves]


def overlay(run: Run) -> Overlay:
    """The curves of a run."""
    run_metrics = RunMetrics(run.records)
    rates = {}
    is_alone = run_metrics.run is run_metrics.table  # the rates are those of one run
    if is_alone and has_mean_rates(run_metrics.run):  # rates of single lines are drawn as they are
        rates = combined_rates(run_metrics.rates, 1 if run.summary.is_rate_global else run.summary.ranks)
    metrics: dict[MetricTraits, Sequence[Curve]] = {}
    logged: dict[str, dict[MetricTraits, Sequence[XValues]]] = {axis: {} for axis in LOGGED_AXES}
    for metric in run_metrics.values():
        traits = run.shared_traits(metric.traits)
        metrics[traits] = metric.curves(AXES[0])
        for axis, positions in logged.items():
            positions[traits] = metric.positions_by_step(axis, run_metrics.start or 0.0)
        if rates and traits.name == RATE:  # one curve over all segments
            metrics[traits] = [Curve([*rates], [*rates.values()])]
            for positions in logged.values():
                positions[traits] = [dict(chain.from_iterable(part.items() for part in positions[traits]))]
    known = {axis: positions for axis, positions in logged.items() if any(map(any, positions.values()))}
    return Overlay(run.name, _x_values(run.summary, run_metrics.rates, metrics.values()), metrics, known)


def _x_values(summary: Summary, series: RatesByRank, curves: Iterable[Sequence[Curve]]) -> dict[str, XValues]:
    of_curves = (curve.positions for curve in chain.from_iterable(curves))
    of_rates = ([rate.step for rate in rates] for rates in series.values())
    steps = sorted({*chain.from_iterable(of_curves), *chain.from_iterable(of_rates)})
    by_step: XValues = {step: float(step) for step in steps}
    size = summary.batch_size_global
    if size is None:
        return {"step": by_step}
    share = size if summary.is_rate_global else size / max(summary.ranks, 1)
    by_images: XValues = {step: float(step * size) for step in steps}
    first = (rate for rate in next(iter(series.values()), ()) if rate.images_per_sec > 0)
    seconds: XValues = {rate.step: rate.step * share / rate.images_per_sec for rate in first}
    return {"step": by_step, "images": by_images, "seconds": seconds}


NOTHING = "There is nothing to draw yet: no run has reported a finite number."
MAX_PANELS = 4
_ALL_PROCESSES = ", all processes"
_OVER_LABELS = {
    "step": "step",
    "epoch": "epoch",
    "time": "time (s)",
    "images": "images seen",
    "seconds": "training time (s)",
    ORDER: "value",
}
_NEEDS = {"epoch": "epochs", "time": "times", "images": "batch size", "seconds": "batch size"}
_HEADROOM = 1.08
_MOST_NAMED = 24  # runs in the legend
_MOST_MARKED = 40  # longest line that still has markers
_LEGEND_LETTERS = 105  # letters per legend line above the figure …
_LEGEND_LINE_INCHES = 0.2  # … whose height is increased by this


_Chart = Sequence[MetricTraits]


@serialized
def draw_runs(
    compared: Sequence[Run],
    *,
    over: str,
    metrics: Sequence[str] = (),
    ax: Axes | None = None,
    preferences: MetricPreferences = NO_PREFERENCES,
) -> Axes:
    """Draw the metrics of the runs, a panel for each quantity; returns the Axes of the first panel.

    Raises:
        UsageError: A log does not determine the positions for `over`, or no run has one of `metrics`.
    """
    drawn = [overlay(run) for run in compared]
    for run in drawn:
        run.check(over)
    charts = _chosen(drawn, metrics, preferences) if metrics else _charts(drawn, preferences)
    names = {index: run.name for index, run in enumerate(drawn) if any(run.metrics.values())}
    named = [*names.values()][:_MOST_NAMED]
    height = 5 + _LEGEND_LINE_INCHES * (len(named) // _columns(named))
    panels = [ax] if ax else new_panels(rows=max(1, len(charts)), size=(7, height))
    for panel, chart in zip(panels, charts, strict=False):
        _draw_panel(panel, drawn, chart, over)
    if charts:
        axes = {metric.axis for run in compared for metric in run.metrics}
        panels[-1].set_xlabel(_OVER_LABELS[ORDER if over == AXES[0] and axes == {ORDER} else over])
        _legend(panels[0], names, is_outside=ax is None)
    else:
        show_message(panels[0], NOTHING)
    return panels[0]


def _charts(drawn: Sequence[Overlay], preferences: MetricPreferences) -> list[_Chart]:
    """The first charts with a finite value in any run; timers only where there is nothing else."""
    traits = dict.fromkeys(metric for run in drawn for metric in run.metrics)
    charts: list[_Chart] = [chart for chart in charts_of(traits, preferences) if _finite(drawn, chart)]
    return [chart for chart in charts if is_default(chart)][:MAX_PANELS] or charts[:MAX_PANELS]


def _chosen(drawn: Sequence[Overlay], names: Sequence[str], preferences: MetricPreferences) -> list[_Chart]:
    """The charts of the metrics that the user names."""
    traits = list(dict.fromkeys(metric for run in drawn for metric in run.metrics))
    known = [metric.name for metric in traits]
    for name in names:
        if not find_metric(known, name):
            raise UsageError(
                f"no run has the metric {name!r}", hint=f"They have: {', '.join(known) or 'none'}."
            )
    selected = {find_metric(known, name) for name in names}
    return [*charts_of((metric for metric in traits if metric.name in selected), preferences)]


def _draw_panel(panel: Axes, drawn: Sequence[Overlay], chart: _Chart, over: str) -> None:
    """Draw the segments of one quantity: training solid, other phases dotted where both are there."""
    for i, run in enumerate(drawn):
        first, *others = run.lines(chart[0], over) or [(Curve([], []), {})]
        _draw_line(panel, run.name, *first, i)
        for line in others:
            _draw_line(panel, "_segment", *line, i)
        for line in chain.from_iterable(run.lines(traits, over) for traits in chart[1:]):
            _draw_line(panel, "_other_phase", *line, i, ":")
    label = f"{chart[0].label}{_ALL_PROCESSES if chart[0].is_summed else ''}"
    if len(chart) > 1:
        label = f"{chart[0].quantity} ({', '.join(metric.phase for metric in chart[1:])} dotted)"
    decorate(panel, label)
    panel.label_outer()
    if chart[0].is_rate:
        panel.set_ylim(0, _HEADROOM * max(_finite(drawn, chart)) or 1)


def _finite(drawn: Sequence[Overlay], chart: _Chart) -> list[float]:
    curves = (curve for run in drawn for traits in chart for curve in run.metrics.get(traits, ()))
    return list(filter(math.isfinite, chain.from_iterable(curve.values for curve in curves)))


def _legend(ax: Axes, named: Mapping[int, str], *, is_outside: bool) -> None:
    """Add the legend of runs, above the figure so that it covers no curve."""
    lines, _ = ax.get_legend_handles_labels()
    handles, names = [lines[index] for index in named][:_MOST_NAMED], list(named.values())[:_MOST_NAMED]
    if len(named) > _MOST_NAMED:
        names[-1] = f"{names[-1]} … {len(named) - _MOST_NAMED} more"
    figure = ax.get_figure(root=True)
    if is_outside and figure is not None:
        columns = _columns(names)
        style: dict[str, Any] = {"ncols": columns, "fontsize": "small", "frameon": False}
        colour_legend(figure.legend(handles, names, loc="outside upper center", **style))
    else:
        colour_legend(ax.legend(handles, names, fontsize="small", frameon=False))


def _columns(names: Sequence[str]) -> int:
    """The number of legend columns above the figure."""
    return max(1, min(len(names), 4, int(_LEGEND_LETTERS / (max(map(len, names), default=0) + 8))))


def _draw_line(panel: Axes, name: str, curve: Curve, positions: XValues, index: int, style: str = "") -> None:
    values = curve.points
    steps = [step for step in values if step in positions]
    panel.plot(
        [positions[step] for step in steps],
        [values[step] for step in steps],
        color=PALETTE[index % len(PALETTE)],
        linestyle=style or ("-" if index < len(PALETTE) else "--"),
        marker=MARKERS[index % len(MARKERS)] if len(steps) <= _MOST_MARKED else "",
        markersize=4,
        linewidth=1.5,
        label=name,
    )


SIZE = (6.4, 3.0)  # inches
MANY = 200  # points, from which on they are small


@serialized
def plot_sweep(points: Sequence[tuple[int, float]], metric: str, sign: int) -> Axes:
    """Plots the values of trials by number; `sign` is 1 if lower values are better, −1 if higher ones are."""
    (ax,) = new_panels(size=SIZE)
    if not points:
        show_message(ax, "No trial has printed its metric yet.")
        return ax
    numbers, values = [number for number, _ in points], [value for _, value in points]
    size = 6 if len(points) > MANY else 20
    ax.scatter(numbers, values, s=size, color=PALETTE[0], alpha=0.6, label="trials", zorder=2)
    if sign:
        best = list(accumulate(values, min if sign > 0 else max))
        ax.step(numbers, best, where="post", color=PALETTE[1], label="best so far", zorder=3)
        ax.legend(frameon=False, labelcolor="#777777")
    ax.set_xlabel("trial")
    decorate(ax, metric)
    return ax
