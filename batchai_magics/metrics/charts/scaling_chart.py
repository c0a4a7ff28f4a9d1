"""The figure of a scaling study: images/sec with the ideal line, and the efficiency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from batchai_magics.metrics.charts.figure import (
    MARKERS,
    PALETTE,
    REFERENCE,
    colour_legend,
    decorate,
    new_panels,
    serialized,
    show_message,
)
from batchai_magics.metrics.runs.scaling_curve import ScalingCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_LABEL_SHARE = 0.055  # of the axis, per line of a label
_MOST_PERCENT = 150.0  # error bars beyond do not extend the axis


def draw_efficiencies(ax: Axes, curves: Sequence[ScalingCurve]) -> None:
    """Draw the efficiency of all curves over the number of processes, with percent labels."""
    ax.axhline(100, linestyle="--", color=REFERENCE, linewidth=1.2)
    for index, curve in enumerate(curves):
        points = curve.points
        values = [point.efficiency_percent for point in points]
        errors = [point.efficiency_uncertainty for point in points]
        ax.errorbar([point.processes for point in points], values, yerr=errors, **curve_style(index))
    all_points = [point for curve in curves for point in curve.points]
    highest = max(point.efficiency_percent for point in all_points)
    top = max(point.efficiency_percent + point.efficiency_uncertainty for point in all_points)
    ax.set_ylim(0, max(110.0, 1.1 * highest, min(top, _MOST_PERCENT)))
    _label_efficiencies(ax, curves)


def _label_efficiencies(ax: Axes, curves: Sequence[ScalingCurve]) -> None:
    """Label each point of a single curve, or the last points of several, without overlap."""
    if len(curves) == 1:
        for point in curves[0].points[1:]:
            low = point.efficiency_percent - point.efficiency_uncertainty
            _label(
                ax, point.efficiency_percent, (point.processes, low), 0, xytext=(0, -4), ha="center", va="top"
            )
        return
    lasts = sorted((curve.points[-1].efficiency_percent, index) for index, curve in enumerate(curves))
    heights = _spread_apart([value for value, _ in lasts], _LABEL_SHARE * ax.get_ylim()[1])
    for (value, index), height in zip(lasts, heights, strict=True):
        _label(ax, value, (curves[index].points[-1].processes, height), index, xytext=(7, 0), va="center")


def _label(ax: Axes, value: float, where: tuple[float, float], curve_index: int, **style: Any) -> None:
    color = curve_style(curve_index)["color"]
    ax.annotate(f"{value:.0f} %", where, textcoords="offset points", fontsize="small", color=color, **style)


def _spread_apart(values: Sequence[float], gap: float) -> list[float]:
    """The ascending values, with those closer than `gap` moved apart around their mean."""
    groups: list[list[float]] = []
    for value in values:
        groups.append([value])
        while len(groups) > 1 and _bottom(groups[-1], gap) - _bottom(groups[-2], gap) < gap * len(groups[-2]):
            groups[-2:] = [groups[-2] + groups[-1]]
    return [_bottom(group, gap) + gap * i for group in groups for i in range(len(group))]


def _bottom(group: Sequence[float], gap: float) -> float:
    return sum(group) / len(group) - gap * (len(group) - 1) / 2


def curve_style(index: int) -> dict[str, Any]:
    """The style of a curve in both panels."""
    color, marker = PALETTE[index % len(PALETTE)], MARKERS[index % len(MARKERS)]
    return {"color": color, "marker": marker, "markersize": 5, "linewidth": 1.6, "capsize": 3}


NOTHING = "There is nothing to draw yet: no run has told its images/sec."
_SIZE = (7.2, 3.4)  # inches
_WIDE = 16  # use a logarithmic axis from this ratio of process counts
_ROOM = 1.18  # axis space after the last point, for its label
_LETTER_SHARE = (0.018, 0.03)  # of the width of each panel, per letter of a tick label


@serialized
def draw_scaling(curves: Sequence[ScalingCurve], *, ax: Axes | None = None) -> Axes:
    """Draw the curves; returns the Axes of images/sec."""
    if not curves:
        empty = ax or new_panels(size=_SIZE)[0]
        show_message(empty, NOTHING)
        return empty
    panels = [ax] if ax else new_panels(columns=2, size=_SIZE, widths=(3, 2))
    counts = sorted({point.processes for curve in curves for point in curve.points})
    is_wide = counts[-1] >= _WIDE * counts[0]
    _draw_speeds(panels[0], curves, is_wide=is_wide)
    for panel in panels[1:]:
        draw_efficiencies(panel, curves)
    for panel, label, share in zip(panels, (curves[0].rate, "efficiency (%)"), _LETTER_SHARE, strict=False):
        decorate(panel, label)
        _count_axis(panel, counts, is_wide=is_wide, share=share)
        panel.set_xlabel("GPUs" if all(curve.is_on_gpus for curve in curves) else "processes")
    _legend(panels[0], curves, is_outside=ax is None)
    return panels[0]


def _legend(ax: Axes, curves: Sequence[ScalingCurve], *, is_outside: bool) -> None:
    """Add the legend of models above the figure; its title is what all curves have in common."""
    handles, labels = ax.get_legend_handles_labels()
    title, long_labels = _title_and_names(curves)
    names = [long_labels.get(label, label) for label in labels]
    style: dict[str, Any] = {"title": title, "fontsize": "small", "title_fontsize": "small", "frameon": False}
    figure = ax.get_figure(root=True)
    if is_outside and figure is not None:
        columns = max(1, min(len(names), 4, int(110 / (max(map(len, names)) + 10))))
        colour_legend(figure.legend(handles, names, loc="outside upper center", ncols=columns, **style))
    else:
        colour_legend(ax.legend(handles, names, loc="upper left", **style))


def _title_and_names(curves: Sequence[ScalingCurve]) -> tuple[str, dict[str, str]]:
    """What all curves have in common, and the label of each with what the title does not say."""
    kinds, batches = {curve.kind for curve in curves}, {curve.batch for curve in curves}
    title = ", ".join(next(iter(words)) for words in (kinds, batches) if len(words) == 1 and any(words))
    names = {}
    for curve in curves:
        parts = [curve.label]
        if len(batches) > 1 and not curve.label.endswith(curve.batch):
            parts.append(curve.batch)
        if len(kinds) > 1:
            parts.append(curve.kind)
        names[curve.label] = ", ".join(parts)
    return title, names


def _draw_speeds(ax: Axes, curves: Sequence[ScalingCurve], *, is_wide: bool) -> None:
    for index, curve in enumerate(curves):
        counts = [point.processes for point in curve.points]
        ideals = [point.ideal for point in curve.points]
        label = "_" if index else "ideal"
        ax.plot(counts, ideals, linestyle="--", color=REFERENCE, linewidth=1.2, label=label)
        speeds = [point.images_per_sec for point in curve.points]
        errors = [point.uncertainty for point in curve.points]
        ax.errorbar(counts, speeds, yerr=errors, label=curve.label, **curve_style(index))
    if is_wide:
        ax.set_yscale("log", base=2)
    else:
        ax.set_ylim(bottom=0)
    ax.yaxis.set_major_formatter("{x:,.0f}")


def _count_axis(ax: Axes, counts: Sequence[int], *, is_wide: bool, share: float) -> None:
    """Set a tick at each number of processes, labelled if there is room."""
    if is_wide:
        ax.set_xscale("log", base=2)
        ax.set_xlim(counts[0] / _ROOM, counts[-1] * _ROOM**3)
    else:
        ax.set_xlim(0, counts[-1] * _ROOM)
    xs = ax.transAxes.inverted().transform(ax.transData.transform([(count, 1) for count in counts]))[:, 0]
    labels, right = [""] * len(counts), math.inf
    for i in reversed(range(len(counts))):
        text = str(counts[i])
        if right - xs[i] >= share * (len(text) + 1):
            labels[i], right = text, xs[i]
    ax.set_xticks(counts, labels)
    ax.minorticks_off()
