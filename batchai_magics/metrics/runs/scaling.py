"""How speed scales with the number of processes, as in the Horovod benchmarks."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchai_magics.errors import UsageError
from batchai_magics.metrics.charts.figure import save_figure
from batchai_magics.metrics.charts.scaling_chart import draw_scaling
from batchai_magics.metrics.measurement import RATE_UNIT
from batchai_magics.metrics.runs.compared_runs import Comparables, Run, read_runs
from batchai_magics.metrics.runs.html_tables import scaling_html
from batchai_magics.metrics.runs.metric_traits import find_metric, traits_of
from batchai_magics.metrics.runs.run_metrics import RATE
from batchai_magics.metrics.runs.scaling_curve import (
    ScalingCurve,
    ScalingPoint,
    default_rate,
    has_speed,
    scaling_curves,
    with_rate,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True, repr=False)
class Scaling:
    """A scaling study: curves of a rate over processes, one per model; displays as a table.

    Attributes:
        curves: The curves.
        runs: The runs, each with its rate as its steady speed.
        metric: The name of the rate; empty for images/sec.
    """

    curves: tuple[ScalingCurve, ...]
    runs: tuple[Run, ...] = ()
    metric: str = ""

    @property
    def label(self) -> str:
        """The rate, for display."""
        return traits_of(self.metric).label if self.metric else RATE_UNIT

    @property
    def is_running(self) -> bool:
        """Whether a job was still running when its log was read."""
        return any(run.is_running for run in self.runs)

    @property
    def silent(self) -> tuple[str, ...]:
        """The names of the runs without the rate."""
        return tuple(run.name for run in self.runs if not has_speed(run))

    def rows(self) -> list[dict[str, Any]]:
        """One dict per point: the fields of the point, and `scaling`: weak, strong, mixed or unknown.

        Another rate is under its name, instead of `images_per_sec`.
        """
        names = [field.name for field in fields(ScalingPoint)]
        return [
            {**{self._title(name): getattr(point, name) for name in names}, "scaling": curve.growth.value}
            for curve in self.curves
            for point in curve.points
        ]

    def frame(self) -> DataFrame:
        """One row per model and number of processes, with the columns of `rows`; `runs` is text."""
        import pandas as pd

        rows = [{**row, "runs": ", ".join(row["runs"])} for row in self.rows()]
        titles = [self._title(field.name) for field in fields(ScalingPoint)]
        return pd.DataFrame(rows, columns=[*titles, "scaling"])

    def _title(self, field: str) -> str:
        return self.metric if self.metric and field == RATE else field

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Plot the rate over processes with the ideal line, and the efficiency in percent.

        Args:
            ax: Axes to draw only the speeds on, instead of a new figure with both panels.

        Returns:
            The Axes of the rate, which display their figure in a notebook (`ax.figure`).
        """
        return draw_scaling(self.curves, ax=ax)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the figure to a .svg, .pdf or .png file.

        Raises:
            UsageError: The suffix is unknown or the file cannot be written.
        """
        return save_figure(self.plot(), path)

    def __str__(self) -> str:
        return "\n".join(self._sentences())

    def _sentences(self) -> list[str]:
        when = " yet" if self.is_running else ""
        out = "" if self.is_running else " Left out."
        rest = [f"No {self.label}{when}: {', '.join(self.silent)}.{out}"] if self.silent else []
        return [*map(str, self.curves), *rest]

    def __repr__(self) -> str:
        return f"{self.frame().to_string(index=False)}\n{self}"

    def _repr_html_(self) -> str:
        return scaling_html(self.rows(), self.metric or RATE, self.label) + "".join(
            f"<p style='margin:8px 0 0'>{html.escape(sentence)}</p>" for sentence in self._sentences()
        )


def scaling(runs: Comparables, *, metric: str = "") -> Scaling:
    """How speed scales with the number of processes: `scaling([job1, job2, job4])`.

    The runs of one model form a curve; runs with the same number of processes form one point. Logs without
    the rate are left out and listed in `silent`.

    Args:
        runs: Job handles, results of `read_metrics`, or log paths.
        metric: The rate to study: `tokens_per_sec`; by default images/sec, else the first rate of any run.

    Raises:
        UsageError: No log has the rate, or a model ran with only one number of processes. Neither is an
            error while a job is still running.
    """
    compared = read_runs(runs)
    result = scaling_so_far(compared, metric)
    if result.is_running:
        return result
    if not result.curves:
        names = ", ".join(result.silent)
        raise UsageError(
            f"no log reports {result.label}: {names}", hint="Choose other runs, or another --metric."
        )
    for curve in result.curves:
        if len(curve.points) < 2:
            raise UsageError(
                f"{curve.label}: the number of processes is {curve.points[0].processes} in all runs",
                hint="Give runs with two numbers of processes or more.",
            )
    return result


def scaling_so_far(runs: Sequence[Run], metric: str = "") -> Scaling:
    """The scaling study of runs that may still be running: a curve may have one point."""
    names = dict.fromkeys(traits.name for run in runs for traits in run.summary.traits)
    name = (find_metric(names, metric) or metric) if metric else default_rate(runs)
    if name in ("", RATE):
        return Scaling(scaling_curves(runs), tuple(runs))
    rated = tuple(with_rate(run, name) for run in runs)
    return Scaling(scaling_curves(rated, traits_of(name).label), rated, name)
