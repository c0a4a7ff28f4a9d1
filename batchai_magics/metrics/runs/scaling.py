"""How speed grows with the number of processes: what the Horovod benchmarks show."""

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
from batchai_magics.metrics.runs.compared_runs import Comparables, Run, read_again, read_runs
from batchai_magics.metrics.runs.curve import Curve, Point, curves_of, has_speed
from batchai_magics.metrics.runs.html_tables import scaling_html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True, repr=False)
class Scaling:
    """Curves of images/sec against processes, one for each model; it shows itself as a table."""

    curves: tuple[Curve, ...]
    runs: tuple[Run, ...] = ()

    @property
    def is_running(self) -> bool:
        """Whether a job among them had not ended when its log was read."""
        return any(run.is_running for run in self.runs)

    def refreshed(self) -> Scaling:
        """The same runs as they are now: with what running jobs have told since."""
        return scaling_so_far(read_again(self.runs))

    @property
    def silent(self) -> tuple[str, ...]:
        """The runs that have told no images/sec, by name."""
        return tuple(run.name for run in self.runs if not has_speed(run))

    def rows(self) -> list[dict[str, Any]]:
        """One object a point: the fields of Point, and `scaling`: weak, strong, mixed or unknown."""
        names = [field.name for field in fields(Point)]
        return [
            {**{name: getattr(point, name) for name in names}, "scaling": curve.growth.value}
            for curve in self.curves
            for point in curve.points
        ]

    def frame(self) -> DataFrame:
        """One row a model and number of processes."""
        import pandas as pd

        rows = [{**row, "runs": ", ".join(row["runs"])} for row in self.rows()]
        return pd.DataFrame(rows, columns=[*(field.name for field in fields(Point)), "scaling"])

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """images/sec against processes with the ideal line, and the efficiency in per cent beside it.

        The value shows itself in a notebook; `ax.figure` is the whole picture. With `ax`, only the speeds are
        drawn, there.
        """
        return draw_scaling(self.curves, ax=ax)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the figure; the path ends in .svg, .pdf or .png."""
        return save_figure(self.plot(), path)

    def __str__(self) -> str:
        return "\n".join(self._sentences())

    def _sentences(self) -> list[str]:
        when = " yet" if self.is_running else ""
        out = "" if self.is_running else " Left out."
        rest = [f"No images/sec{when}: {', '.join(self.silent)}.{out}"] if self.silent else []
        return [*map(str, self.curves), *rest]

    def __repr__(self) -> str:
        return f"{self.frame().to_string(index=False)}\n{self}"

    def _repr_html_(self) -> str:
        return scaling_html(self.rows()) + "".join(
            f"<p style='margin:8px 0 0'>{html.escape(sentence)}</p>" for sentence in self._sentences()
        )


def scaling(runs: Comparables) -> Scaling:
    """How the runs' speed grows with their processes: `scaling([job1, job2, job4])`.

    A run is a job's handle, what `read_metrics` gave, or the path of a log. Runs of one model make a curve;
    several with the same number of processes make one point. A log without images/sec is left out, and named.
    UsageError when no other is left, and for a model that ran with one number of processes only. While a job
    still runs neither is an error: the value is what is known so far.
    """
    every = read_runs(runs)
    result = scaling_so_far(every)
    if result.is_running:
        return result
    if not result.curves:
        names = ", ".join(result.silent)
        raise UsageError(f"no log tells images/sec: {names}", hint="Give runs whose logs do.")
    for curve in result.curves:
        if len(curve.points) < 2:
            raise UsageError(
                f"{curve.label}: the number of processes is {curve.points[0].processes} in all runs",
                hint="Give runs with two numbers of processes or more.",
            )
    return result


def scaling_so_far(runs: Sequence[Run]) -> Scaling:
    """The same of runs that may go on: those without images/sec are left out, a curve may be one point."""
    return Scaling(curves_of(runs), tuple(runs))
