"""The efficiency panel of a scaling study: how much of the ideal speed is reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from batchai_magics.metrics.charts.figure import MARKERS, PALETTE, REFERENCE
from batchai_magics.metrics.runs.curve import Curve, Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABEL_SHARE = 0.055  # of the axis, that a label's line needs
_MOST_PERCENT = 150.0  # the axis follows no error bar beyond


def draw_efficiencies(ax: Axes, curves: Sequence[Curve]) -> None:
    """The efficiencies of all curves over their numbers of processes, with what they reach in per cent."""
    ax.axhline(100, linestyle="--", color=REFERENCE, linewidth=1.2)
    for place, curve in enumerate(curves):
        points = curve.points
        values = [point.efficiency_percent for point in points]
        errors = [point.efficiency_uncertainty for point in points]
        ax.errorbar([point.processes for point in points], values, yerr=errors, **curve_style(place))
    ax.set_ylim(0, _highest([point for curve in curves for point in curve.points]))
    _label_efficiencies(ax, curves)


def _highest(points: Sequence[Point]) -> float:
    """Where the axis ends: above all points, and above their error bars as far as these are no outliers."""
    values = max(point.efficiency_percent for point in points)
    tops = max(point.efficiency_percent + point.efficiency_uncertainty for point in points)
    return max(110.0, 1.1 * values, min(tops, _MOST_PERCENT))


def _label_efficiencies(ax: Axes, curves: Sequence[Curve]) -> None:
    """In per cent: below each point of a single curve, beside the last ones of several, each apart."""
    if len(curves) == 1:
        for point in curves[0].points[1:]:
            low = point.efficiency_percent - point.efficiency_uncertainty
            _label(
                ax, point.efficiency_percent, (point.processes, low), 0, xytext=(0, -4), ha="center", va="top"
            )
        return
    lasts = sorted((curve.points[-1].efficiency_percent, place) for place, curve in enumerate(curves))
    heights = _apart([value for value, _ in lasts], _LABEL_SHARE * ax.get_ylim()[1])
    for (value, place), height in zip(lasts, heights, strict=True):
        _label(ax, value, (curves[place].points[-1].processes, height), place, xytext=(7, 0), va="center")


def _label(ax: Axes, value: float, where: tuple[float, float], place: int, **style: Any) -> None:
    color = curve_style(place)["color"]
    ax.annotate(f"{value:.0f} %", where, textcoords="offset points", fontsize="small", color=color, **style)


def _apart(values: Sequence[float], gap: float) -> list[float]:
    """The ascending values, those nearer to each other than `gap` moved apart around their middle."""
    groups: list[list[float]] = []
    for value in values:
        groups.append([value])
        while len(groups) > 1 and _bottom(groups[-1], gap) - _top(groups[-2], gap) < gap:
            groups[-2:] = [groups[-2] + groups[-1]]
    return [_bottom(group, gap) + gap * i for group in groups for i in range(len(group))]


def _bottom(group: Sequence[float], gap: float) -> float:
    return sum(group) / len(group) - gap * (len(group) - 1) / 2


def _top(group: Sequence[float], gap: float) -> float:
    return sum(group) / len(group) + gap * (len(group) - 1) / 2


def curve_style(place: int) -> dict[str, Any]:
    """How a curve is drawn in both panels of the figure."""
    color, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
    return {"color": color, "marker": marker, "markersize": 5, "linewidth": 1.6, "capsize": 3}
