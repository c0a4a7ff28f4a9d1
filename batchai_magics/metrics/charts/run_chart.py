"""Plots a run's metrics over its steps: images/sec and loss, or whatever else its log contains."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

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
from batchai_magics.metrics.record import Record, StepRecord
from batchai_magics.metrics.runs.run_header import run_header
from batchai_magics.metrics.runs.steady_speed import RankHistory, common_warm_up
from batchai_magics.metrics.runs.step_series import by_rank, combined_rates, mean_losses, runs
from batchai_magics.metrics.runs.tidy_table import extra_series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


NOTHING = "There is nothing to draw: the log tells no images/sec, no finite loss and no other number."
_ALL = PALETTE[0]
_MEAN = "mean of the ranks"
_PANEL_INCHES = 2.5

_Series = Mapping[int, Sequence[StepRecord]]
_Draw = Callable[["Axes"], None]


@serialized
def plot(source: Iterable[Record] | DataFrame, *, ax: Axes | None = None) -> Axes:
    """Plot the last run: images/sec (each rank, and all together) and loss.

    Only metrics in the log are drawn, one panel each; without speed and loss, its other numbers are. Metrics
    of user-defined patterns are always included. If there is nothing to draw, the figure says so. Steps that
    the summary excludes as warm-up are shaded. The figure does not belong to pyplot, which would display it a
    second time.

    Args:
        source: Records, or a frame of them.
        ax: Axes for the first panel, with the loss on a twin axis, instead of a new figure.

    Returns:
        The Axes of the first panel, which display their figure in a notebook. `figure_png(ax)` is its PNG.
    """
    run = runs(_records(source))[-1]
    draws = _panels(run)
    if ax is not None:
        return _drawn_on(ax, draws)
    panels = new_panels(rows=len(draws) or 1, size=(8, _PANEL_INCHES * max(2, len(draws))))
    for panel, draw in zip(panels, draws, strict=False):
        draw(panel)
        panel.label_outer()
    if draws:
        panels[-1].set_xlabel("step")
    else:
        show_message(panels[0], NOTHING)
    return panels[0]


def is_drawable(records: Iterable[Record]) -> bool:
    """Whether `plot` has anything to draw for these records."""
    return bool(_panels(runs(records)[-1]))


def _drawn_on(ax: Axes, draws: Sequence[_Draw]) -> Axes:
    if not draws:
        show_message(ax, NOTHING)
        return ax
    draws[0](ax)
    ax.set_xlabel("step")
    for draw in draws[1:2]:
        twin = ax.twinx()
        draw(twin)
        twin.grid(visible=False)
        twin.spines["right"].set_visible(True)
    return ax


def _panels(run: Sequence[Record]) -> list[_Draw]:
    """A drawing function for each panel with data."""
    series = by_rank(run)
    steps = [record for records in series.values() for record in records]
    panels: list[_Draw] = []
    if any(math.isfinite(record.images_per_sec) for record in steps):
        is_global = run_header(run, ranks_seen=len(series)).is_rate_global
        panels.append(lambda ax: _draw_rates(ax, series, is_global=is_global))
    if any(math.isfinite(record.loss) for record in steps):
        panels.append(lambda ax: _draw_losses(ax, series))
    for name, values in extra_series(run, is_all=not panels).items():
        panels.append(lambda ax, name=name, values=values: _draw_other(ax, name, values))  # type: ignore[misc]  # mypy cannot infer a lambda's defaults
    return panels


def _records(source: Any) -> Iterable[Record]:
    if not hasattr(source, "itertuples"):
        return cast("Iterable[Record]", source)
    ranks = [
        int(rank) if known else None
        for rank, known in zip(source["rank"], source["rank"].notna(), strict=True)
    ]
    names = ["step", "images_per_sec", "uncertainty", "jitter", "loss"]
    rows = source[names].itertuples(index=False)
    return [StepRecord(int(row[0]), rank, *row[1:]) for rank, row in zip(ranks, rows, strict=True)]


def _draw_rates(ax: Axes, series: _Series, *, is_global: bool) -> None:
    decorate(ax, "images/sec")
    shade_warm_up(ax, common_warm_up({rank: RankHistory.of(steps) for rank, steps in series.items()}))
    if not is_global:
        _draw_ranks(ax, series)
    if len(series) > 1 or is_global:
        together = combined_rates(series, 1 if is_global else 0)
        ax.plot(list(together), list(together.values()), color=_ALL, linewidth=2.0, label="all ranks")
    if len(series) > 1 and not is_global:
        _legend(ax)
    ax.set_ylim(bottom=0)


def _draw_ranks(ax: Axes, series: _Series) -> None:
    for rank, steps in series.items():
        rates = [record.images_per_sec for record in steps]
        style = _rank_style(rank, len(series))
        ax.plot([record.step for record in steps], rates, label=f"rank {rank}", **style)


def shade_warm_up(ax: Axes, cut: int | None) -> None:
    """Shade the steps before the end of warm-up, if known, and label them with their number."""
    if not cut:
        return
    ax.axvspan(0, cut, color=REFERENCE, alpha=0.12, linewidth=0)
    place = {"xycoords": ("data", "axes fraction"), "va": "bottom", "fontsize": "small", "color": REFERENCE}
    words = f"warm-up, {cut:,} step{'s' * (cut != 1)}"
    ax.annotate(words, (0, 1.0), **place)  # type: ignore[arg-type]  # mixed coordinates


def _rank_style(rank: int, rank_count: int) -> dict[str, Any]:
    if rank_count == 1:
        return {"color": _ALL, "linewidth": 2.0}
    return {"color": RANK_COLOURS[rank % len(RANK_COLOURS)], "linewidth": 1.0}


def _draw_losses(ax: Axes, series: _Series) -> None:
    decorate(ax, "loss")
    for rank, steps in series.items():
        losses = [record.loss for record in steps]
        style = _rank_style(rank, len(series))
        ax.plot([record.step for record in steps], losses, label=f"rank {rank}", **style)
    if len(series) > 1:
        means = mean_losses(series)
        ax.plot(list(means), list(means.values()), color=_ALL, linewidth=2.0, label=_MEAN)
        _legend(ax)


def _draw_other(ax: Axes, name: str, values: Mapping[int | None, Sequence[tuple[int, float]]]) -> None:
    decorate(ax, name)
    for rank, points in values.items():
        ax.plot(*zip(*points, strict=True), label=f"rank {rank}", **_rank_style(rank or 0, len(values)))
    if len(values) > 1:
        ax.plot(*zip(*_means(values), strict=True), color=_ALL, linewidth=2.0, label=_MEAN)
        _legend(ax)


def _means(values: Mapping[int | None, Sequence[tuple[int, float]]]) -> list[tuple[int, float]]:
    """The mean over the ranks at each step."""
    at: defaultdict[int, list[float]] = defaultdict(list)
    for points in values.values():
        for step, value in points:
            at[step].append(value)
    return [(step, sum(found) / len(found)) for step, found in sorted(at.items())]


def _legend(ax: Axes) -> None:
    """Add the legend of ranks in the first panel; below it, only that of the combined line."""
    handles, labels = ax.get_legend_handles_labels()
    rank_count = len(handles) - 1
    if any(panel.get_legend() for panel in ax.figure.axes if panel is not ax):
        handles, labels = handles[-1:], labels[-1:]
    elif rank_count > len(RANK_COLOURS):
        handles, labels = handles[-2:], [f"each of {rank_count} ranks", labels[-1]]
    colour_legend(ax.legend(handles, labels, loc="best", fontsize="small", frameon=False))
