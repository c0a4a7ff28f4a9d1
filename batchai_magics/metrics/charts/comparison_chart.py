"""The overlay of several runs: images/sec and loss, one colour a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from batchai_magics.errors import UsageError
from batchai_magics.metrics.charts.figure import (
    MARKERS,
    PALETTE,
    colour_legend,
    decorate,
    new_panels,
    one_at_a_time,
    say,
)
from batchai_magics.metrics.record import StepRecord
from batchai_magics.metrics.runs.compared_runs import Run
from batchai_magics.metrics.runs.series import by_rank, mean_losses, rates_together, runs
from batchai_magics.metrics.runs.summary import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes


OVER = ("step", "images", "seconds")
"""What an overlay can be drawn over: steps, images seen, seconds of training."""

Places = Mapping[int, float]


@dataclass(frozen=True)
class Overlay:
    """The images/sec of all processes and the mean loss of a run, by step.

    `places` tells for each of OVER where a step stands there, as far as the log tells it.
    """

    name: str
    rates: Mapping[int, float]
    losses: Mapping[int, float]
    places: Mapping[str, Places]

    def places_over(self, over: str) -> Places:
        """Where each step stands; UsageError where the log does not tell, or for no word of OVER."""
        if over not in OVER:
            raise UsageError(f"over: {over!r} is none of {', '.join(OVER)}")
        if over not in self.places:
            raise UsageError(f"the log of {self.name} tells no batch size", hint="Draw it over step.")
        return self.places[over]


def overlay(run: Run) -> Overlay:
    """The lines of a run."""
    series = by_rank(runs(run.records)[-1])
    ranks = 1 if run.summary.is_rate_global else run.summary.ranks
    return Overlay(run.name, rates_together(series, ranks), mean_losses(series), _places(run.summary, series))


def _places(summary: Summary, series: Mapping[int, Sequence[StepRecord]]) -> dict[str, Places]:
    steps = sorted({record.step for records in series.values() for record in records})
    by_step: Places = {step: float(step) for step in steps}
    size = summary.batch_size_global
    if size is None:
        return {"step": by_step}
    share = size if summary.is_rate_global else size / max(summary.ranks, 1)
    by_images: Places = {step: float(step * size) for step in steps}
    return {"step": by_step, "images": by_images, "seconds": _seconds(next(iter(series.values()), ()), share)}


def _seconds(steps: Sequence[StepRecord], batch: float) -> Places:
    return {r.step: r.step * batch / r.images_per_sec for r in steps if r.images_per_sec > 0}


NOTHING = "There is nothing to draw yet: no run has told images/sec or a loss."
_RATE, _LOSS = "images/sec, all processes", "loss"
_OVER_LABELS = {"step": "step", "images": "images seen", "seconds": "training time (s)"}
_HEADROOM = 1.08
_MOST_MARKED = 40  # points of a line that still carry markers
_LEGEND_LETTERS = 105  # of one line above the figure …
_LEGEND_LINE_INCHES = 0.2  # … which makes it so much higher


@one_at_a_time
def draw_runs(compared: Sequence[Run], *, over: str, ax: Axes | None = None) -> Axes:
    """Draws what the runs have of images/sec and loss; gives the Axes of the first panel.

    UsageError where a log does not tell what the runs are drawn over.
    """
    drawn = [overlay(run) for run in compared]
    places = [run.places_over(over) for run in drawn]
    labels = list(filter(lambda label: _finite(drawn, label), (_RATE, _LOSS)))
    names = _names(drawn)
    panels = [ax] if ax else _new_panels(list(names.values()), rows=max(1, len(labels)))
    for panel, label in zip(panels, labels, strict=False):
        _draw_panel(panel, drawn, places, label)
    if labels:
        panels[-1].set_xlabel(_OVER_LABELS[over])
        _legend(panels[0], names, is_outside=ax is None)
    else:
        say(panels[0], NOTHING)
    return panels[0]


def _names(drawn: Sequence[Overlay]) -> dict[int, str]:
    """The names of the runs that have anything to draw, by their places."""
    return {place: run.name for place, run in enumerate(drawn) if run.rates or run.losses}


def _draw_panel(panel: Axes, drawn: Sequence[Overlay], places: Sequence[Places], label: str) -> None:
    for i, run in enumerate(drawn):
        _draw_line(panel, run.name, _values(run, label), places[i], i)
    decorate(panel, label)
    panel.label_outer()
    if label == _RATE:
        panel.set_ylim(0, _HEADROOM * max(_finite(drawn, _RATE)) or 1)


def _new_panels(names: Sequence[str], *, rows: int) -> list[Axes]:
    height = 5 + _LEGEND_LINE_INCHES * (len(names) // _columns(names))
    return new_panels(rows=rows, size=(7, height))


def _values(run: Overlay, label: str) -> Mapping[int, float]:
    return run.rates if label == _RATE else run.losses


def _finite(drawn: Sequence[Overlay], label: str) -> list[float]:
    values = (value for run in drawn for value in _values(run, label).values())
    return list(filter(math.isfinite, values))


def _legend(ax: Axes, named: Mapping[int, str], *, is_outside: bool) -> None:
    """Which colour is which run, by its place: above the figure, where it covers no line."""
    lines, _ = ax.get_legend_handles_labels()
    handles, names = [lines[place] for place in named], list(named.values())
    figure = ax.get_figure(root=True)
    if is_outside and figure is not None:
        columns = _columns(names)
        style: dict[str, Any] = {"ncols": columns, "fontsize": "small", "frameon": False}
        colour_legend(figure.legend(handles, names, loc="outside upper center", **style))
    else:
        colour_legend(ax.legend(handles, names, fontsize="small", frameon=False))


def _columns(names: Sequence[str]) -> int:
    """How many names stand beside each other above the figure."""
    return max(1, min(len(names), 4, int(_LEGEND_LETTERS / (max(map(len, names), default=0) + 8))))


def _draw_line(panel: Axes, name: str, values: Mapping[int, float], places: Places, place: int) -> None:
    steps = [step for step in values if step in places]
    panel.plot(
        [places[step] for step in steps],
        [values[step] for step in steps],
        color=PALETTE[place % len(PALETTE)],
        linestyle="-" if place < len(PALETTE) else "--",
        marker=MARKERS[place % len(MARKERS)] if len(steps) <= _MOST_MARKED else "",
        markersize=4,
        linewidth=1.5,
        label=name,
    )
