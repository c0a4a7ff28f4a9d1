"""The figure of a sweep: the metric of each trial, and the best one so far."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from batchai_magics.metrics.charts.figure import PALETTE, decorate, new_panels, serialized, show_message

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
