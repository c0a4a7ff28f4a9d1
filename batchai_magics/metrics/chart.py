"""Images/sec and loss over steps as a matplotlib figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from batchai_magics.metrics.figure import PALETTE, REFERENCE, decorate, new_panels
from batchai_magics.metrics.record import Record, StepRecord
from batchai_magics.metrics.series import by_rank, rates_together, runs
from batchai_magics.metrics.steady import common_warm_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_RATE, _LOSS = PALETTE[0], PALETTE[1]
_RANK_COLORS = PALETTE[1:]


def plot(source: Iterable[Record] | DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draws the last run's images/sec (each rank, and all together) and loss; gives the Axes of images/sec.

    The steps that the summary leaves out as warm-up are shaded. `source` is records, or a frame of them. With
    `ax`, images/sec is drawn there and the loss on a twin axis. Without, the figure belongs to no pyplot
    state: pyplot would show it a second time at the end of the cell. It is the Axes that shows itself, once,
    as the value of a cell; `ax.figure` is the whole picture, and `figure_png(ax)` its PNG.
    """
    series = by_rank(runs(_records(source))[-1])
    rate_ax, loss_ax = new_panels(rows=2, size=(8, 5)) if ax is None else (ax, ax.twinx())
    _draw_rates(rate_ax, series)
    _draw_losses(loss_ax, series, is_twin=ax is not None)
    (loss_ax if ax is None else rate_ax).set_xlabel("step")
    return rate_ax


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


def _draw_rates(ax: Axes, series: Mapping[int, Sequence[StepRecord]]) -> None:
    decorate(ax, "images/sec")
    _shade_warm_up(ax, common_warm_up(series))
    is_many = len(series) > 1
    for rank, steps in series.items():
        rates = [record.images_per_sec for record in steps]
        style = _rank_style(rank, len(series))
        ax.plot([record.step for record in steps], rates, label=f"rank {rank}", **style)
    if is_many:
        together = rates_together(series)
        ax.plot(list(together), list(together.values()), color=_RATE, linewidth=2.0, label="all ranks")
        _legend(ax, len(series))
    ax.set_ylim(bottom=0)


def _shade_warm_up(ax: Axes, cut: int | None) -> None:
    if not cut:
        return
    ax.axvspan(0, cut, color=REFERENCE, alpha=0.12, linewidth=0)
    ax.annotate(" warm-up", (0, 0.03), xycoords=("data", "axes fraction"), fontsize="small", color=REFERENCE)


def _rank_style(rank: int, rank_count: int) -> dict[str, Any]:
    if rank_count == 1:
        return {"color": _RATE, "linewidth": 2.0}
    is_few = rank_count <= len(_RANK_COLORS)
    return {"color": _RANK_COLORS[rank % len(_RANK_COLORS)] if is_few else REFERENCE, "linewidth": 1.0}


def _draw_losses(ax: Axes, series: Mapping[int, Sequence[StepRecord]], *, is_twin: bool) -> None:
    decorate(ax, "loss")
    if is_twin:
        ax.grid(visible=False)
        ax.spines["right"].set_visible(True)
    first = next(iter(series), None)
    for rank, steps in series.items():
        losses = [record.loss for record in steps]
        ax.plot([record.step for record in steps], losses, color=_LOSS, alpha=1.0 if rank == first else 0.4)


def _legend(ax: Axes, rank_count: int) -> None:
    handles, labels = ax.get_legend_handles_labels()
    if rank_count > len(_RANK_COLORS):
        handles, labels = handles[-2:], [f"each of {rank_count} ranks", labels[-1]]
    ax.legend(handles, labels, loc="best", fontsize="small", frameon=False)
