"""The overlay of several runs: images/sec and loss, one colour a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from batchai_magics.errors import UsageError
from batchai_magics.metrics.figure import MARKERS, PALETTE, decorate, new_panels
from batchai_magics.metrics.losses import mean_losses
from batchai_magics.metrics.record import StepRecord
from batchai_magics.metrics.series import by_rank, rates_together, runs
from batchai_magics.metrics.sources import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OVER = ("step", "images", "seconds")
_LABELS = {"step": "step", "images": "images seen", "seconds": "training time (s)"}
_HEADROOM = 1.08
_MOST_MARKED = 40  # points of a line that still carry markers


def draw_runs(compared: Sequence[Run], *, over: str, ax: Axes | None = None) -> Axes:
    """Draws the runs; gives the Axes of images/sec."""
    if over not in OVER:
        raise UsageError(f"over: {over!r} is none of {', '.join(OVER)}")
    panels = [ax] if ax else new_panels(rows=2, size=(7, 5))
    for place, run in enumerate(compared):
        _draw_run(panels, run, place, over)
    for panel, label in zip(panels, ("images/sec, all processes", "loss"), strict=False):
        decorate(panel, label)
        panel.label_outer()
    highest = panels[0].dataLim.ymax
    panels[0].set_ylim(0, _HEADROOM * highest if 0 < highest < math.inf else 1)
    panels[-1].set_xlabel(_LABELS[over])
    panels[0].legend(fontsize="small", frameon=False, ncols=2 if len(compared) > 4 else 1)
    return panels[0]


def _draw_run(panels: Sequence[Axes], run: Run, place: int, over: str) -> None:
    series = by_rank(runs(run.records)[-1])
    speeds = rates_together(series, 1 if run.summary.is_rate_global else run.summary.ranks)
    losses = mean_losses(series)
    places = _places(run, series, over)
    for panel, values in zip(panels, (speeds, losses), strict=False):
        steps = [step for step in values if step in places]
        is_marked = len(steps) <= _MOST_MARKED
        panel.plot(
            [places[step] for step in steps],
            [values[step] for step in steps],
            color=PALETTE[place % len(PALETTE)],
            linestyle="-" if place < len(PALETTE) else "--",
            marker=MARKERS[place % len(MARKERS)] if is_marked else "",
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
