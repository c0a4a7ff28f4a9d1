"""The overlay of several runs: images/sec and loss, one colour a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from batchai_magics.errors import UsageError
from batchai_magics.metrics.figure import MARKERS, PALETTE, decorate, new_panels, say
from batchai_magics.metrics.losses import mean_losses
from batchai_magics.metrics.record import StepRecord
from batchai_magics.metrics.series import by_rank, rates_together, runs
from batchai_magics.metrics.sources import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RATE, LOSS = "images/sec, all processes", "loss"
NOTHING = "There is nothing to draw yet: no run has told images/sec or a loss."
OVER = ("step", "images", "seconds")
_LABELS = {"step": "step", "images": "images seen", "seconds": "training time (s)"}
_HEADROOM = 1.08
_MOST_MARKED = 40  # points of a line that still carry markers
_LEGEND_LETTERS = 105  # of one line above the figure …
_LEGEND_LINE_INCHES = 0.2  # … which makes it so much higher


@dataclass(frozen=True)
class _Drawn:
    """A run's images/sec and losses by step, and where each step stands on the x axis."""

    name: str
    values: Mapping[str, Mapping[int, float]]
    places: Mapping[int, float]


def draw_runs(compared: Sequence[Run], *, over: str, ax: Axes | None = None) -> Axes:
    """Draws what the runs have of images/sec and loss; gives the Axes of the first panel."""
    if over not in OVER:
        raise UsageError(f"over: {over!r} is none of {', '.join(OVER)}")
    drawn = [_drawn(run, over) for run in compared]
    labels = [label for label in (RATE, LOSS) if any(map(math.isfinite, _every(drawn, label)))]
    names = [run.name for run in drawn]
    height = 5 + _LEGEND_LINE_INCHES * (len(names) // _columns(names))
    panels = [ax] if ax else new_panels(rows=len(labels) or 1, size=(7, height))
    if not labels:
        say(panels[0], NOTHING)
        return panels[0]
    for panel, label in zip(panels, labels, strict=False):
        for place, run in enumerate(drawn):
            _draw_line(panel, run, label, place)
        decorate(panel, label)
        panel.label_outer()
    if labels[0] == RATE:
        panels[0].set_ylim(0, _HEADROOM * max(filter(math.isfinite, _every(drawn, RATE))) or 1)
    panels[-1].set_xlabel(_LABELS[over])
    _legend(panels[0], names, is_outside=ax is None)
    return panels[0]


def _every(drawn: Sequence[_Drawn], label: str) -> list[float]:
    return [value for run in drawn for value in run.values[label].values()]


def _legend(ax: Axes, names: Sequence[str], *, is_outside: bool) -> None:
    """Which colour is which run: above the figure, where it covers no line."""
    handles, _ = ax.get_legend_handles_labels()
    figure = ax.get_figure(root=True)
    if is_outside and figure is not None:
        figure.legend(
            handles, names, loc="outside upper center", ncols=_columns(names), fontsize="small", frameon=False
        )
    else:
        ax.legend(handles, names, fontsize="small", frameon=False)


def _columns(names: Sequence[str]) -> int:
    """How many names stand beside each other above the figure."""
    return max(1, min(len(names), 4, int(_LEGEND_LETTERS / (max(map(len, names)) + 8))))


def _drawn(run: Run, over: str) -> _Drawn:
    series = by_rank(runs(run.records)[-1])
    speeds = rates_together(series, 1 if run.summary.is_rate_global else run.summary.ranks)
    return _Drawn(run.name, {RATE: speeds, LOSS: mean_losses(series)}, _places(run, series, over))


def _draw_line(panel: Axes, run: _Drawn, label: str, place: int) -> None:
    values = run.values[label]
    steps = [step for step in values if step in run.places]
    panel.plot(
        [run.places[step] for step in steps],
        [values[step] for step in steps],
        color=PALETTE[place % len(PALETTE)],
        linestyle="-" if place < len(PALETTE) else "--",
        marker=MARKERS[place % len(MARKERS)] if len(steps) <= _MOST_MARKED else "",
        markersize=4,
        linewidth=1.5,
        label=run.name,
    )


def _places(run: Run, series: Mapping[int, Sequence[StepRecord]], over: str) -> dict[int, float]:
    """Where each step stands on the x axis; UsageError where the log does not tell."""
    steps = {record.step for records in series.values() for record in records}
    if over == "step":
        return {step: float(step) for step in steps}
    size = run.summary.batch_size_global
    if size is None:
        raise UsageError(f"the log of {run.name} tells no batch size", hint="Draw it over step.")
    if over == "images":
        return {step: float(step * size) for step in steps}
    share = size if run.summary.is_rate_global else size / max(run.summary.ranks, 1)
    first = next(iter(series.values()), [])
    return {r.step: r.step * share / r.images_per_sec for r in first if r.images_per_sec > 0}
