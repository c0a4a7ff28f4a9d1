"""How speed grows with the number of processes: what the Horovod benchmarks show."""

from __future__ import annotations

import html
import math
import os
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from batchai_magics.errors import UsageError
from batchai_magics.metrics.charts.figure import save_figure
from batchai_magics.metrics.charts.scaling import draw_scaling
from batchai_magics.metrics.runs.compared import Comparables, Run, read_again, read_runs
from batchai_magics.metrics.runs.curve import Curve, Growth, Point
from batchai_magics.metrics.runs.steady import Speed, standard_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


_Key = TypeVar("_Key", bound=Hashable)
_BATCH_SIZES: dict[str, Callable[[Run], int | None]] = {
    "per process": lambda run: run.summary.batch_size_per_device,
    "in all": lambda run: run.summary.batch_size_global,
}


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
        return tuple(run.name for run in self.runs if not _is_told(run))

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
        rest = [f"No images/sec{when}: {', '.join(self.silent)}."] if self.silent else []
        return [*map(str, self.curves), *rest]

    def __repr__(self) -> str:
        return f"{self.frame().to_string(index=False)}\n{self}"

    def _repr_html_(self) -> str:
        table = self.frame().to_html(index=False, na_rep="", float_format="{:,.1f}".format)
        return table + "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self._sentences())


def scaling(runs: Comparables) -> Scaling:
    """How the runs' speed grows with their processes: `scaling([job1, job2, job4])`.

    A run is a job's handle, what `read_metrics` gave, or the path of a log. Runs of one model make a curve;
    several with the same number of processes make one point. UsageError for a log without images/sec, and for
    a model that ran with one number of processes only. While a job still runs neither is an error: the value
    is what is known so far.
    """
    found = read_runs(runs)
    if any(run.is_running for run in found):
        return scaling_so_far(found)
    for run in found:
        if not _is_told(run):
            raise UsageError(f"the log of {run.name} tells no images/sec", hint="Leave it out.")
    made = scaling_so_far(found)
    for curve in made.curves:
        if len(curve.points) < 2:
            raise UsageError(
                f"{curve.label}: the number of processes is {curve.points[0].processes} in all runs",
                hint="Give runs with two numbers of processes or more.",
            )
    return made


def scaling_so_far(runs: Sequence[Run]) -> Scaling:
    """The same of runs that may go on: those without images/sec are left out, a curve may be one point."""
    groups = _grouped(filter(_is_told, runs), lambda run: run.summary.model or "model")
    curves = tuple(curve for label, group in groups.items() for curve in _curves(label, group))
    return Scaling(curves, tuple(runs))


def _is_told(run: Run) -> bool:
    return run.summary.steady is not None and run.summary.steady.images_per_sec > 0


def workers(run: Run) -> int:
    """How many train: the processes, or the devices where one process drives several."""
    return max(run.summary.ranks, run.summary.device_count or 0, 1)


def _curves(label: str, runs: Sequence[Run]) -> list[Curve]:
    """One curve, or one for each batch size where only that makes them weak or strong."""
    if _growth(runs) is Growth.MIXED:
        for name, batch_size in _BATCH_SIZES.items():
            parts = _grouped(runs, batch_size)
            if all(len({workers(run) for run in part}) > 1 for part in parts.values()):
                return [_curve(f"{label}, batch of {size} {name}", part) for size, part in parts.items()]
    return [_curve(label, runs)]


def _curve(label: str, runs: Sequence[Run]) -> Curve:
    by_count = _grouped(runs, workers)
    least = min(by_count)
    base = _speed(by_count[least])
    points = tuple(_point(label, by_count[count], base, least) for count in sorted(by_count))
    is_on_gpus = all("gpu" in device.lower() for run in runs for device in run.summary.devices or [""])
    return Curve(label, _growth(runs), is_on_gpus, points)


def _point(label: str, runs: Sequence[Run], base: Speed, least: int) -> Point:
    """The runs of one number of processes, against the speed of the least one."""
    speed, count, first = _speed(runs), workers(runs[0]), runs[0].summary
    ideal = base.images_per_sec * count / least
    efficiency = 100 * speed.images_per_sec / ideal
    doubts = [each.uncertainty / each.images_per_sec for each in (speed, base)] if count > least else []
    return Point(
        model=label,
        processes=count,
        images_per_sec=speed.images_per_sec,
        uncertainty=speed.uncertainty,
        ideal=ideal,
        speedup=speed.images_per_sec / base.images_per_sec,
        efficiency_percent=efficiency,
        efficiency_uncertainty=efficiency * math.hypot(*doubts),
        batch_size_per_device=first.batch_size_per_device,
        batch_size_global=first.batch_size_global,
        runs=tuple(run.name for run in runs),
    )


def _growth(runs: Sequence[Run]) -> Growth:
    per_device = {run.summary.batch_size_per_device for run in runs}
    in_all = {run.summary.batch_size_global for run in runs}
    if None in per_device or None in in_all:
        return Growth.UNKNOWN
    if len(per_device) == 1:
        return Growth.WEAK
    return Growth.STRONG if len(in_all) == 1 else Growth.MIXED


def _speed(runs: Iterable[Run]) -> Speed:
    """The mean speed; its error is that from run to run if there are several, else that within the run."""
    steady = [run.summary.steady for run in runs if run.summary.steady]
    if len(steady) == 1:
        return steady[0]
    speeds = [speed.images_per_sec for speed in steady]
    jitter = sum(speed.jitter for speed in steady) / len(steady)
    return Speed(sum(speeds) / len(speeds), standard_error(speeds), jitter)


def _grouped(runs: Iterable[Run], key: Callable[[Run], _Key]) -> dict[_Key, list[Run]]:
    groups: defaultdict[_Key, list[Run]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return dict(groups)
