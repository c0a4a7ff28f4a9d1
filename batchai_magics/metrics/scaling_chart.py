"""The figure of a scaling study: images/sec with the ideal line, and the efficiency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from batchai_magics.metrics.curve import Curve
from batchai_magics.metrics.figure import MARKERS, PALETTE, REFERENCE, decorate, new_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDE = 16  # counts that span at least this factor stand on a logarithmic scale
_ROOM = 1.18  # behind the last point, for what is written beside it


def draw_scaling(curves: Sequence[Curve], *, ax: Axes | None = None) -> Axes:
    """Draws the curves; gives the Axes of images/sec."""
    panels = [ax] if ax else new_panels(columns=2, size=(7.2, 3.4), widths=(3, 2))
    counts = sorted({point.processes for curve in curves for point in curve.points})
    is_wide = counts[-1] >= _WIDE * counts[0]
    for place, curve in enumerate(curves):
        _draw_speeds(panels[0], curve, place)
        if len(panels) > 1:
            _draw_efficiencies(panels[1], curve, place, is_alone=len(curves) == 1)
    for panel, label in zip(panels, ("images/sec", "efficiency (%)"), strict=False):
        decorate(panel, label)
        _count_axis(panel, counts, is_wide=is_wide)
        panel.set_xlabel("GPUs" if all(curve.is_on_gpus for curve in curves) else "processes")
    if is_wide:
        panels[0].set_yscale("log", base=2)
    else:
        panels[0].set_ylim(bottom=0)
    panels[0].yaxis.set_major_formatter("{x:,.0f}")
    _legend(panels[0], curves, is_outside=ax is None)
    return panels[0]


def _legend(ax: Axes, curves: Sequence[Curve], *, is_outside: bool) -> None:
    """Which colour is which model, above the figure; what all curves have in common is the title."""
    batches = {curve.batches for curve in curves}
    handles, names = ax.get_legend_handles_labels()
    if len(batches) > 1:
        told = {curve.label: f"{curve.label} ({curve.batches})" for curve in curves}
        names = [told.get(name, name) for name in names]
    title = batches.pop() if len(batches) == 1 else None
    columns = 4 if title else 2
    style: dict[str, Any] = {"title": title, "fontsize": "small", "title_fontsize": "small", "frameon": False}
    figure = ax.get_figure(root=True)
    if is_outside and figure is not None:
        figure.legend(handles, names, loc="outside upper center", ncols=min(columns, len(names)), **style)
    else:
        ax.legend(handles, names, loc="upper left", **style)


def _draw_speeds(ax: Axes, curve: Curve, place: int) -> None:
    counts = [point.processes for point in curve.points]
    ideals = [point.ideal for point in curve.points]
    label = "ideal" if place == 0 else "_"
    ax.plot(counts, ideals, linestyle="--", color=REFERENCE, linewidth=1.2, label=label)
    speeds = [point.images_per_sec for point in curve.points]
    errors = [point.uncertainty for point in curve.points]
    ax.errorbar(counts, speeds, yerr=errors, label=curve.label, **_style(place))


def _draw_efficiencies(ax: Axes, curve: Curve, place: int, *, is_alone: bool) -> None:
    if place == 0:
        ax.axhline(100, linestyle="--", color=REFERENCE, linewidth=1.2)
    points = curve.points
    values = [point.efficiency_percent for point in points]
    errors = [point.efficiency_uncertainty for point in points]
    ax.errorbar([point.processes for point in points], values, yerr=errors, **_style(place))
    for point in points[1:] if is_alone else points[-1:]:
        where = (point.processes, point.efficiency_percent)
        style = {"fontsize": "small", "color": _style(place)["color"]}
        text = f"{point.efficiency_percent:.0f} %"
        ax.annotate(text, where, xytext=(5, 4), textcoords="offset points", **style)
    ax.set_ylim(0, max(1.1 * max(values), ax.get_ylim()[1] if place else 110.0))


def _style(place: int) -> dict[str, Any]:
    color, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
    return {"color": color, "marker": marker, "markersize": 5, "linewidth": 1.6, "capsize": 3}


def _count_axis(ax: Axes, counts: Sequence[int], *, is_wide: bool) -> None:
    """A tick at each number of processes that ran."""
    if is_wide:
        ax.set_xscale("log", base=2)
    ax.set_xticks(counts, [str(count) for count in counts])
    ax.minorticks_off()
    if is_wide:
        ax.set_xlim(counts[0] / _ROOM, counts[-1] * _ROOM**3)
    else:
        ax.set_xlim(0, counts[-1] * _ROOM)
