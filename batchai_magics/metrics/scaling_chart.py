"""The figure of a scaling study: images/sec with the ideal line, and the efficiency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from batchai_magics.metrics.curve import Curve
from batchai_magics.metrics.figure import MARKERS, PALETTE, REFERENCE, decorate, new_panels, say

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOTHING = "There is nothing to draw yet: no run has told its images/sec."
_WIDE = 16  # counts that span at least this factor stand on a logarithmic scale
_ROOM = 1.18  # behind the last point, for what is written beside it
_LETTER_SHARE = (0.018, 0.03)  # of the width of each panel, that a letter of a tick's label needs
_LABEL_SHARE = 0.055  # of the efficiency's axis, that a label's line needs
_MOST_PERCENT = 150.0  # the axis follows no error bar beyond


def draw_scaling(curves: Sequence[Curve], *, ax: Axes | None = None) -> Axes:
    """Draws the curves; gives the Axes of images/sec."""
    panels = [ax] if ax else new_panels(columns=2 if curves else 1, size=(7.2, 3.4), widths=_widths(curves))
    if not curves:
        say(panels[0], NOTHING)
        return panels[0]
    counts = sorted({point.processes for curve in curves for point in curve.points})
    is_wide = counts[-1] >= _WIDE * counts[0]
    for place, curve in enumerate(curves):
        _draw_speeds(panels[0], curve, place)
    for panel in panels[1:]:
        _draw_efficiencies(panel, curves)
    for panel, label, share in zip(panels, ("images/sec", "efficiency (%)"), _LETTER_SHARE, strict=False):
        decorate(panel, label)
        _count_axis(panel, counts, is_wide=is_wide, share=share)
        panel.set_xlabel("GPUs" if all(curve.is_on_gpus for curve in curves) else "processes")
    if is_wide:
        panels[0].set_yscale("log", base=2)
    else:
        panels[0].set_ylim(bottom=0)
    panels[0].yaxis.set_major_formatter("{x:,.0f}")
    _legend(panels[0], curves, is_outside=ax is None)
    return panels[0]


def _widths(curves: Sequence[Curve]) -> tuple[int, ...]:
    return (3, 2) if curves else (1,)


def _legend(ax: Axes, curves: Sequence[Curve], *, is_outside: bool) -> None:
    """Which colour is which model, above the figure; what all curves have in common is the title."""
    handles, names = ax.get_legend_handles_labels()
    kinds, batches = {curve.kind for curve in curves}, {curve.batch for curve in curves}
    common = [words.pop() for words in (kinds, batches) if len(words) == 1]
    title = ", ".join(word for word in common if word)
    told = {curve.label: _name(curve, has_kind=not kinds, has_batch=not batches) for curve in curves}
    names = [told.get(name, name) for name in names]
    style: dict[str, Any] = {"title": title, "fontsize": "small", "title_fontsize": "small", "frameon": False}
    figure = ax.get_figure(root=True)
    if is_outside and figure is not None:
        columns = max(1, min(len(names), 4, int(110 / (max(map(len, names)) + 10))))
        figure.legend(handles, names, loc="outside upper center", ncols=columns, **style)
    else:
        ax.legend(handles, names, loc="upper left", **style)


def _name(curve: Curve, *, has_kind: bool, has_batch: bool) -> str:
    """The curve's label with what the title does not say, unless the label itself does."""
    parts = [curve.label]
    if not has_batch and curve.batch and not curve.label.endswith(curve.batch):
        parts.append(curve.batch)
    return ", ".join(parts if has_kind else [*parts, curve.kind])


def _draw_speeds(ax: Axes, curve: Curve, place: int) -> None:
    counts = [point.processes for point in curve.points]
    ideals = [point.ideal for point in curve.points]
    label = "ideal" if place == 0 else "_"
    ax.plot(counts, ideals, linestyle="--", color=REFERENCE, linewidth=1.2, label=label)
    speeds = [point.images_per_sec for point in curve.points]
    errors = [point.uncertainty for point in curve.points]
    ax.errorbar(counts, speeds, yerr=errors, label=curve.label, **_style(place))


def _draw_efficiencies(ax: Axes, curves: Sequence[Curve]) -> None:
    ax.axhline(100, linestyle="--", color=REFERENCE, linewidth=1.2)
    for place, curve in enumerate(curves):
        points = curve.points
        values = [point.efficiency_percent for point in points]
        errors = [point.efficiency_uncertainty for point in points]
        ax.errorbar([point.processes for point in points], values, yerr=errors, **_style(place))
    every = [point for curve in curves for point in curve.points]
    tops = [point.efficiency_percent + point.efficiency_uncertainty for point in every]
    highest = max(1.1 * max(point.efficiency_percent for point in every), min(max(tops), _MOST_PERCENT))
    ax.set_ylim(0, max(110.0, highest))
    _label_efficiencies(ax, curves)


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
    color = _style(place)["color"]
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


def _style(place: int) -> dict[str, Any]:
    color, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
    return {"color": color, "marker": marker, "markersize": 5, "linewidth": 1.6, "capsize": 3}


def _count_axis(ax: Axes, counts: Sequence[int], *, is_wide: bool, share: float) -> None:
    """A tick at each number of processes that ran, labelled where there is room."""
    if is_wide:
        ax.set_xscale("log", base=2)
        ax.set_xlim(counts[0] / _ROOM, counts[-1] * _ROOM**3)
    else:
        ax.set_xlim(0, counts[-1] * _ROOM)
    places = ax.transAxes.inverted().transform(ax.transData.transform([(count, 1) for count in counts]))[:, 0]
    labels, right = [""] * len(counts), math.inf
    for i in reversed(range(len(counts))):
        text = str(counts[i])
        if right - places[i] >= share * (len(text) + 1):
            labels[i], right = text, places[i]
    ax.set_xticks(counts, labels)
    ax.minorticks_off()
