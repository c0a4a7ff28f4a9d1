"""Runs side by side: what each was, how fast, how well it learnt."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchai_magics.metrics.charts.comparison_chart import OVER, draw_runs
from batchai_magics.metrics.charts.figure import save_figure
from batchai_magics.metrics.runs.compared_runs import Comparables, Run, read_again, read_runs
from batchai_magics.metrics.runs.html_tables import comparison_html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

COLUMNS = (
    "model", "dataset", "processes", "devices", "batch_size_global", "batch_size_per_device", "steps",
    "warm_up_steps", "images_per_sec", "uncertainty", "jitter", "per_process", "total_images_per_sec",
    "speedup", "skew", "stragglers", "first_loss", "last_loss", "loss_trend", "has_nan",
)  # fmt: skip
"""What is told of each run, in the order of the table."""


_RATIOS = ("speedup", "skew", "first_loss", "last_loss")


@dataclass(frozen=True, repr=False)
class Comparison:
    """Several runs, in the order in which they were given; it shows itself as a table."""

    runs: tuple[Run, ...]

    @property
    def is_running(self) -> bool:
        """Whether a job among them had not ended when its log was read."""
        return any(run.is_running for run in self.runs)

    def refreshed(self) -> Comparison:
        """The same runs as they are now: with what running jobs have told since."""
        return Comparison(read_again(self.runs))

    def rows(self) -> list[dict[str, Any]]:
        """One object a run: `run`, its name, and COLUMNS.

        `images_per_sec` is the steady speed of all processes, with its `uncertainty` and `jitter`; `speedup`
        is in proportion to the first run.
        """
        first = self.runs[0].summary.steady
        base = first.images_per_sec if first else None
        return [{"run": run.name, **_row(run, base)} for run in self.runs]

    def frame(self) -> DataFrame:
        """One row a run, its name the index."""
        import pandas as pd

        return pd.DataFrame(self.rows(), columns=["run", *COLUMNS]).set_index("run")

    def plot(self, *, over: str = OVER[0], ax: Axes | None = None) -> Axes:
        """images/sec and loss of all runs in one chart, over `step`, `images` or `seconds`.

        Over images seen, or seconds, losses of different batch sizes can be compared. The value shows itself
        in a notebook; `ax.figure` is the whole picture. With `ax`, only images/sec is drawn, there.
        """
        return draw_runs(self.runs, over=over, ax=ax)

    def save(self, path: str | os.PathLike[str], *, over: str = OVER[0]) -> Path:
        """Writes the chart; the path ends in .svg, .pdf or .png."""
        return save_figure(self.plot(over=over), path)

    def __repr__(self) -> str:
        return self._shown().to_string()

    def _repr_html_(self) -> str:
        return comparison_html(self.rows())

    def _shown(self) -> DataFrame:
        """A column a run, as people read it; what no log tells is left out."""
        import pandas as pd

        rows = self.rows()
        texts = {name: [_text(name, row[name]) for row in rows] for name in COLUMNS}
        shown = {name: cells for name, cells in texts.items() if any(cells)}
        return pd.DataFrame.from_dict(shown, orient="index", columns=[row["run"] for row in rows])


def compare(runs: Comparables) -> Comparison:
    """Jobs or logs side by side: `compare([job, other])`, `compare({"old": "old.log", "new": "new.log"})`.

    A run is a job's handle, what `read_metrics` gave, or the path of a log; of a log with several runs the
    last one counts. UsageError where one cannot be read.
    """
    return Comparison(read_runs(runs))


def _text(name: str, value: Any) -> str:
    """A cell for people: counts are whole, losses and ratios have three decimals, speeds one."""
    if isinstance(value, bool):
        return "seen" if value else ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}" if name in _RATIOS else f"{value:,.1f}"
    return str(value or "")


def _row(run: Run, base: float | None) -> Mapping[str, Any]:
    summary, steady = run.summary, run.summary.steady
    cells = {
        **{name: getattr(summary, name, None) for name in COLUMNS},
        **{name: getattr(steady, name, None) for name in ("images_per_sec", "uncertainty", "jitter")},
        "processes": summary.ranks or None,
        "devices": summary.device_count,
        "speedup": steady.images_per_sec / base if steady and base else None,
        "stragglers": ", ".join(map(str, summary.stragglers)),
        "loss_trend": summary.loss_trend.value if summary.loss_trend else None,
    }
    return cells
