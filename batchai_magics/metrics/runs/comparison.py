"""Compares runs: what was trained, how fast, and how every metric developed."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchai_magics.errors import BatchAIError, UsageError
from batchai_magics.metrics.charts.comparison_chart import OVER, draw_runs
from batchai_magics.metrics.charts.figure import save_figure
from batchai_magics.metrics.runs.compared_runs import Comparable, Comparables, Run, read_runs
from batchai_magics.metrics.runs.html_tables import ComparisonTable, comparison_html, comparison_table
from batchai_magics.metrics.runs.mean_rates import MEAN_RATES
from batchai_magics.metrics.runs.metric_traits import (
    NO_PREFERENCES,
    Direction,
    MetricPreferences,
    MetricTraits,
    headline_of,
    ordered,
)
from batchai_magics.metrics.runs.run_metrics import RATE
from batchai_magics.metrics.runs.seed_groups import SEED, SeededRun, SeedGroups, seed_groups
from batchai_magics.models.runs.labels import SWEEP, varying_parameters

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

COLUMNS = (
    "model", "dataset", "processes", "devices", "batch_size_global", "batch_size_per_device", "steps",
    "warm_up_steps", "images_per_sec", "uncertainty", "jitter", "per_process", "total_images_per_sec",
    "total_of", "speedup", "skew", "stragglers", "first_loss", "last_loss", "loss_trend", "has_nan",
)  # fmt: skip
"""The columns of the table, in order."""


MAX_PARAMETERS = 12  # columns
LOSS = "loss"
_IN_COLUMNS = (RATE, LOSS)  # as last_loss
_LINE_WIDTH = 140  # of the table as text


@dataclass(frozen=True, repr=False)
class Comparison:
    """Runs in the order in which they were given; displays as a table."""

    runs: tuple[Run, ...]
    preferences: MetricPreferences = NO_PREFERENCES

    @property
    def is_running(self) -> bool:
        """Whether a job was still running when its log was read."""
        return any(run.is_running for run in self.runs)

    def rows(self) -> list[dict[str, Any]]:
        """One dict per run: its name under `run`, `parameters`, COLUMNS, and `metric_names`.

        `images_per_sec` is the steady speed of all processes, with `uncertainty` and `jitter`; `speedup` is
        relative to the run with the tag `baseline`, else to the first. `total_of` names the rank whose total
        `total_images_per_sec` is; it is empty if that is the total of all. Other metrics have the mean of a
        rate, else the last value; the best one, where known, is under `best_` and the name.
        """
        first = next((run for run in self.runs if run.is_baseline), self.runs[0]).summary.steady
        base = first.images_per_sec if first else None
        names, parameters = dict.fromkeys(self.metric_names), self.parameters
        return [
            {
                "run": run.name,
                **{column: run.labels.parameters.get(name) for column, name in parameters.items()},
                **_row(run, base),
                **names,
                **_metric_cells(run),
            }
            for run in self.runs
        ]

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters that differ between the runs: column → name, `--lr` where `lr` is a metric too."""
        names = varying_parameters((run.labels for run in self.runs), MAX_PARAMETERS)
        reserved = {"run", *COLUMNS, *self.metric_names}
        return {f"--{name}" if name in reserved else name: name for name in names}

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The columns of metrics besides COLUMNS, the headline's first."""
        shown = {name for run in self.runs for name in _metric_cells(run)}
        names = (name for traits in self.traits for name in (traits.name, f"best_{traits.name}"))
        return tuple(name for name in dict.fromkeys(names) if name in shown)

    def frame(self) -> DataFrame:
        """One row per run, indexed by run name."""
        import pandas as pd

        columns = ["run", *self.parameters, *COLUMNS, *self.metric_names]
        return pd.DataFrame(self.rows(), columns=columns).set_index("run")

    def plot(self, *, over: str = OVER[0], metrics: str | Sequence[str] = (), ax: Axes | None = None) -> Axes:
        """Plot the metrics of all runs over `step`, `epoch`, `time`, `images` or `seconds`.

        Losses of different batch sizes are comparable over images or seconds.

        Args:
            over: One of OVER.
            metrics: The metrics to draw, a name or several; by default the first four charts.
            ax: Axes to draw the first chart on, instead of a new figure with all of them.

        Returns:
            The Axes of the first chart, which display their figure in a notebook (`ax.figure`).
        """
        names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
        return draw_runs(self.runs, over=over, metrics=names, ax=ax, preferences=self.preferences)

    def save(self, path: str | os.PathLike[str], *, over: str = OVER[0]) -> Path:
        """Writes the chart to a .svg, .pdf or .png file.

        Raises:
            UsageError: The suffix is unknown or the file cannot be written.
        """
        return save_figure(self.plot(over=over), path)

    @property
    def headline(self) -> MetricTraits | None:
        """The metric that stands for the runs; None without metrics, or with timers only."""
        metrics = self.traits
        name = headline_of(metrics, self.preferences)
        return next((traits for traits in metrics if traits.name == name), None)

    @property
    def traits(self) -> list[MetricTraits]:
        """The metrics of all runs, the headline first."""
        return ordered(dict.fromkeys(traits for run in self.runs for traits in run.traits), self.preferences)

    def best_run(self, metric: MetricTraits) -> int | None:
        """The index of the run with the best value of a metric; None if no two values differ."""
        direction = self.preferences.direction(metric)
        values = {
            index: value
            for index, run in enumerate(self.runs)
            if (value := _comparable_value(run, metric)) is not None
        }
        if direction is Direction.UNKNOWN or len(set(values.values())) < 2:
            return None
        return (min if direction is Direction.FALLS else max)(values, key=values.__getitem__)

    def seed_groups(self, has_succeeded: Callable[[int], bool] | None = None) -> SeedGroups:
        """The runs that differ in their seed alone, by the headline metric; empty without seeds.

        Runs of different sweeps are different groups. They are compared with the group of the run with the
        tag `baseline`, else with the best one. Only jobs that have succeeded count.

        Args:
            has_succeeded: Whether the run of an index has succeeded; by default its job is asked.
        """
        metric = self.headline
        if metric is None or not any(SEED in run.labels.parameters for run in self.runs):
            return SeedGroups()
        has_succeeded = has_succeeded or self._has_succeeded
        runs = [
            SeededRun(
                run.labels.parameters,
                _comparable_value(run, metric) if has_succeeded(index) else None,
                " ".join(tag.removeprefix(SWEEP) for tag in run.labels.tags if tag.startswith(SWEEP)),
            )
            for index, run in enumerate(self.runs)
        ]
        direction = self.preferences.direction(metric)
        rises = None if direction is Direction.UNKNOWN else direction is Direction.RISES
        baseline = next((index for index, run in enumerate(self.runs) if run.is_baseline), None)
        return seed_groups(runs, metric.label, rises=rises, baseline=baseline)

    def _has_succeeded(self, index: int) -> bool:
        """Whether the job of a run has succeeded; a log without a job has."""
        try:
            return getattr(self.runs[index].source, "exit_code", 0) == 0
        except BatchAIError:  # it was deleted
            return False

    def __repr__(self) -> str:
        import pandas as pd

        caption, titles, rows = self._display_table()
        text = pd.DataFrame(rows, columns=titles).to_string(index=False, line_width=_LINE_WIDTH)
        return "\n".join(filter(None, (caption, text, *self.seed_groups().sentences())))

    def _repr_html_(self) -> str:
        return comparison_html(*self._display_table(), self.seed_groups().sentences())

    def _display_table(self) -> ComparisonTable:
        """The caption, titles and cells for display: one row per run."""
        best = {traits.name: self.best_run(traits) for traits in self.traits}
        metrics = [run.metrics for run in self.runs]
        tags = [run.labels.tags for run in self.runs]
        return comparison_table(self.rows(), metrics, tags, parameters=list(self.parameters), best=best)


def _comparable_value(run: Run, metric: MetricTraits) -> float | None:
    """The value by which runs are ranked: the best one so far, of a rate its mean."""
    figures = next((candidate for candidate in run.metrics if candidate.name == metric.name), None)
    if figures is None:
        return None
    value = figures.headline_value if figures.mean is not None or figures.best is None else figures.best
    return value if math.isfinite(value) else None


def compare(
    runs: Comparables, *others: Comparable, preferences: MetricPreferences = NO_PREFERENCES
) -> Comparison:
    """Compare jobs or logs: `compare([job, other])`, `compare({"old": "old.log", "new": "new.log"})`.

    Args:
        runs: Job handles, results of `read_metrics`, or log paths.
        others: None: runs are given as one list.
        preferences: What the user has said of metrics.

    Raises:
        UsageError: A run cannot be read, or the runs are not in a list.
    """
    if others:
        raise UsageError("the runs to compare are not in a list", hint="Write compare([first, second]).")
    return Comparison(read_runs(runs, preferences), preferences)


def _metric_cells(run: Run) -> dict[str, float]:
    """The figures of the metrics that COLUMNS do not have."""
    cells = {}
    for metric in run.metrics:
        if metric.name not in _IN_COLUMNS:
            cells[metric.name] = metric.headline_value
        if metric.best is not None and metric.mean is None and metric.count > 1 and not metric.is_timer:
            cells[f"best_{metric.name}"] = metric.best
    return cells


def _row(run: Run, base: float | None) -> Mapping[str, Any]:
    summary, steady, processes = run.summary, run.summary.steady, run.process_count
    cells = {
        **{name: getattr(summary, name, None) for name in COLUMNS},
        **{name: getattr(steady, name, None) for name in MEAN_RATES},
        "processes": processes or None,
        "per_process": steady.images_per_sec / processes if steady and processes else summary.per_process,
        "devices": summary.device_count,
        "speedup": steady.images_per_sec / base if steady and base else None,
        "stragglers": ", ".join(map(str, summary.stragglers)),
        "loss_trend": summary.loss_trend.value if summary.loss_trend else None,
    }
    figures: dict[str, float] = {}  # of any program
    for metric in run.metrics:
        if metric.name == RATE:
            figures[RATE] = metric.headline_value
        elif metric.name == LOSS:
            figures |= {"first_loss": metric.first, "last_loss": metric.last}
    return cells | {name: value for name, value in figures.items() if cells[name] is None}
