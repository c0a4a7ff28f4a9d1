"""The current state of compared runs: their model, which all views share, and the stream of a view."""

from __future__ import annotations

import html
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from batchai_magics.backends.base import FileRef
from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.follow import METRICS_FILES, Follower
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.jobs.log_numbers import MAX_SEGMENTS
from batchai_magics.metrics import Comparison, Scaling, summarize
from batchai_magics.metrics.charts.comparison_chart import Overlay, overlay
from batchai_magics.metrics.runs.compared_runs import Run, aligned
from batchai_magics.metrics.runs.metric_summary import MetricSummary
from batchai_magics.metrics.runs.metric_traits import (
    NO_PREFERENCES,
    MetricKind,
    MetricPreferences,
    MetricTraits,
    charts_of,
)
from batchai_magics.metrics.runs.positions import AXES
from batchai_magics.metrics.runs.run_metrics import RATE
from batchai_magics.metrics.runs.scaling import scaling_so_far
from batchai_magics.metrics.runs.scaling_curve import workers
from batchai_magics.models.states import CANCELLED, STOPPED
from batchai_magics.widgets.core.display import Bundle, figure
from batchai_magics.widgets.core.view_stream import Batch, PageData
from batchai_magics.widgets.dashboards.dashboard import DashboardModel, DashboardStream
from batchai_magics.widgets.job.job_header import chart_fields, progress_fields

POLL_S = 1.0  # poll interval of the jobs
LABELS_INTERVAL_S = 10.0  # between two reads of their labels
MAX_CPU_SHARE = 0.05  # of a core, for summarizing the runs again
MAX_INTERVAL_S = 10.0  # between two summaries, whatever they cost
LOG_STATE = "log"  # the state of a run read from a log file
DELETED = "deleted"
MAX_METRICS = 12  # columns
WITHOUT_PROGRESS = ("succeeded", "queued", "log", "deleted")
SUCCEEDED = ("succeeded", LOG_STATE)
FINAL_STATES = (LOG_STATE, DELETED, "succeeded", "failed", CANCELLED, STOPPED)


class FigureModel(DashboardModel):
    """A dashboard that is saved as a table and a figure once everything in it has ended."""

    @property
    def is_at_rest(self) -> bool:
        """Always True; a queued job or another trial may start at any time."""
        return True

    @property
    @abstractmethod
    def has_ended(self) -> bool:
        """Whether everything has ended according to the backend, even if the model has not seen it yet."""

    @abstractmethod
    def chart(self) -> Bundle:
        """The figure as a PNG with a text equivalent."""


class ComparisonModel(FigureModel):
    """The current state of the runs. Their jobs are followed to the end; of the logs, only metrics are read.

    `version` increases with every change; `lines` hold the overlay's data. A job that is deleted meanwhile
    ends with the records read so far. `runs` and `lines` are updated after each poll, or less often if that
    would exceed `MAX_CPU_SHARE`, and once more at the end. `cpu_time` returns the thread's CPU time in
    seconds, so that other load on the machine causes no delay.
    """

    noun = "comparison"
    kind = "compare"
    max_interval_s = POLL_S

    def __init__(
        self,
        runs: Sequence[Run],
        *,
        preferences: MetricPreferences = NO_PREFERENCES,
        clock: Callable[[], float] = time.monotonic,
        cpu_time: Callable[[], float] = time.thread_time,
    ) -> None:
        super().__init__()
        self.runs = tuple(runs)
        self.preferences = preferences
        sources = {index: run.source for index, run in enumerate(runs) if isinstance(run.source, Job)}
        self.states = [sources[i].show().word if i in sources else LOG_STATE for i in range(len(runs))]
        self.jobs = {index: job for index, job in sources.items() if runs[index].is_running}
        self.lines: list[Overlay] = [overlay(run) for run in runs]
        self.line_versions = [1] * len(runs)
        self._clock, self._cpu_time = clock, cpu_time
        self._poll_due_at = self._summary_due_at = clock()
        self._labels_due_at = clock() + LABELS_INTERVAL_S
        self._models = {index: JobModel(_follower(job)) for index, job in self.jobs.items()}
        self._changed: set[int] = set()  # runs with new records
        self._has_news = False  # of progress or labels

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read immediately."""
        return any(model.is_behind for model in self._models.values())

    def poll(self) -> bool:
        """Follows the jobs, at most once per second; returns whether there was anything new."""
        is_news = False
        if self.is_behind or self._clock() >= self._poll_due_at:
            self._poll_due_at = self._clock() + POLL_S
            for index in self._open_runs:
                is_news |= self._poll_run(index)
            self._poll_labels()
        if (self._changed or self._has_news) and self._clock() >= self._summary_due_at:
            self._summarize()
        if not self._open_runs:
            self.end()
        return is_news

    @property
    def _open_runs(self) -> list[int]:
        """The runs whose jobs have not ended."""
        return [index for index, model in self._models.items() if not model.is_over]

    def _poll_run(self, index: int) -> bool:
        model = self._models[index]
        job, progress, numbers = model.job, model.progress, (model.numbers.generation, len(model.numbers))
        try:
            is_news = model.poll()
        except NotFoundError:
            model.end()
            self._set_state(index, DELETED)
            return True
        if model.job and model.job is not job:
            self._set_state(index, model.job.word, len(model.job.ranks))
        if numbers != (model.numbers.generation, len(model.numbers)):
            self._changed.add(index)
        self._has_news |= model.progress != progress
        return is_news

    def _poll_labels(self) -> None:
        """Reads the labels of the jobs, with one request, at intervals and once more at the end."""
        records = next((job.backend.records for job in self.jobs.values()), None)
        if records is None or (self._clock() < self._labels_due_at and self._open_runs):
            return
        self._labels_due_at = self._clock() + LABELS_INTERVAL_S
        try:
            labels = records.labels([job.id for job in self.jobs.values()])
        except BatchAIError:  # tried again at the next interval
            return
        for index, job in self.jobs.items():
            run = self.runs[index]
            if labels.get(job.id.key, run.labels) != run.labels:
                self._replace_run(index, replace(run, labels=labels[job.id.key]))
                self._has_news = True

    def _set_state(self, index: int, state: str, processes: int = 0) -> None:
        """Sets the state of a run; `processes` is the number of its job's once it has ended."""
        self.states[index] = state
        run = self.runs[index]
        is_running = state not in FINAL_STATES
        self._replace_run(index, replace(run, is_running=is_running, processes=processes or run.processes))
        self.version += 1

    def end(self) -> None:
        """Summarizes all runs a last time: their jobs have ended."""
        self._changed.update(self.jobs)  # their state has changed
        self._summarize()
        super().end()

    @property
    def has_ended(self) -> bool:
        """Whether all jobs have ended according to the backend, even if the model has not seen it yet."""
        try:
            return all(job.is_done for job in self.jobs.values())
        except BatchAIError:
            return False

    @property
    def reopen_command(self) -> str:
        """The command that compares the runs again."""
        return f"%batchai {self.kind} {' '.join(run.name for run in self.runs)}"

    @property
    def value(self) -> Comparison | Scaling:
        """The current runs, as `compare` returns them."""
        return Comparison(self.runs, self.preferences)

    def facts(self) -> PageData:
        """What the view's header and charts show (`ComparisonFacts` in frontend/core/messages.d.ts)."""
        value = Comparison(self.runs, self.preferences)
        traits = value.traits
        axes = {metric.axis for run in self.runs for metric in run.metrics}
        metrics = [
            {
                "name": metric.name,
                "label": metric.label,
                "direction": self.preferences.direction(metric).value,
                "best": value.best_run(metric),
            }
            for metric in traits
            if metric.kind is not MetricKind.TIMER
        ]
        return {
            "kind": self.kind,
            "jobs": len(self.jobs),
            "going": sum(state not in FINAL_STATES for state in self.states),
            "problem": self.problem,
            "parameters": list(value.parameters),
            "metrics": metrics[:MAX_METRICS],
            "charts": [
                chart_fields(chart, self.preferences) for chart in charts_of(traits, self.preferences)
            ],
            "axis": axes.pop() if len(axes) == 1 else AXES[0],
            "baseline": next((i for i, run in enumerate(self.runs) if run.is_baseline), None),
            "sentences": value.seed_groups(lambda index: self.states[index] in SUCCEEDED).sentences(),
        }

    def rows(self) -> list[PageData]:
        """The runs (`RunRow` in frontend/core/messages.d.ts)."""
        value = Comparison(self.runs, self.preferences)
        parameters = list(value.parameters)
        return [
            {
                **{name: json_number(row[name]) for name in _ROW_FIELDS},
                "name": run.name,
                "state": state,
                "workers": workers(run) if run.process_count or run.summary.device_count else None,
                "parameters": {name: row[name] for name in parameters if row[name] is not None},
                "tags": list(run.labels.tags),
                "progress": self._progress_of(index),
                "values": {metric.name: _figures(metric, row) for metric in run.metrics},
            }
            for index, (run, row, state) in enumerate(zip(self.runs, value.rows(), self.states, strict=True))
        ]

    def _progress_of(self, index: int) -> PageData | None:
        model = self._models.get(index)
        progress = model.progress if model else None
        return progress_fields(progress) if progress and self.states[index] not in WITHOUT_PROGRESS else None

    def bundle(self) -> Bundle:
        """The table as HTML and text."""
        value = self.value
        states = [
            f"{run.name}: {state}"
            for run, state in zip(self.runs, self.states, strict=True)
            if state not in SUCCEEDED  # it still runs, or did not succeed
        ]
        ends = f"{', '.join(states)}." if states else ""
        text = f"{value!r}\n{ends}" if ends else repr(value)
        return {
            "text/html": f"{value._repr_html_()}<p>{html.escape(ends)}</p>" if ends else value._repr_html_(),
            "text/plain": text,
        }

    def chart(self) -> Bundle:
        """The figure as a PNG with a text equivalent."""
        names = ", ".join(run.name for run in self.runs)
        return figure(self.value.plot(), f"Chart of {names}")

    def _summarize(self) -> None:
        """Summarizes the runs with new records."""
        started_at_s = self._cpu_time()
        for index in self._changed:
            records = self._models[index].numbers.table
            run = replace(
                self.runs[index],
                records=records,
                summary=summarize(records, preferences=self.preferences),
                is_running=self.states[index] not in FINAL_STATES,
            )
            self._replace_run(index, run)
            self._draw(index)
        before = [run.shared for run in self.runs]
        self.runs = aligned(self.runs)  # names metrics as all runs do now
        for index, run in enumerate(self.runs):
            if run.shared != before[index]:
                self._draw(index)
        if self._changed or self._has_news:
            self.version += 1
        self._changed.clear()
        self._has_news = False
        self._summary_due_at = self._clock() + min(
            MAX_INTERVAL_S, (self._cpu_time() - started_at_s) / MAX_CPU_SHARE
        )

    def _replace_run(self, index: int, run: Run) -> None:
        self.runs = (*self.runs[:index], run, *self.runs[index + 1 :])

    def _draw(self, index: int) -> None:
        self.lines[index] = overlay(self.runs[index])
        self.line_versions[index] += 1


def _follower(job: Job) -> Follower:
    """A follower of the metrics of a job, and of its state."""
    return Follower(job.backend, job.id, [FileRef(job.id, file) for file in METRICS_FILES], job.patterns)


class ScalingModel(ComparisonModel):
    """The runs as a scaling study."""

    noun = "study"
    kind = "scaling"

    def __init__(
        self, runs: Sequence[Run], *, metric: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(runs, clock=clock)
        self.metric = metric  # the rate; empty for images/sec

    @property
    def value(self) -> Scaling:
        """The study so far."""
        return scaling_so_far(self.runs, self.metric)

    def facts(self) -> PageData:
        """What the header and the two charts show."""
        value = self.value
        unit = "GPUs" if value.curves and all(curve.is_on_gpus for curve in value.curves) else "processes"
        curves = [  # as columns of equal length (`ScalingCurve` in messages.d.ts)
            {
                "label": curve.label,
                "processes": [point.processes for point in curve.points],
                "rates": [json_number(point.images_per_sec) for point in curve.points],
                "ideals": [json_number(point.ideal) for point in curve.points],
                "percents": [json_number(point.efficiency_percent) for point in curve.points],
            }
            for curve in value.curves
        ]
        return {**super().facts(), "curves": curves, "unit": unit, "sentences": str(value).splitlines()}

    def rows(self) -> list[PageData]:
        """The runs, each with the index of the curve that it belongs to, or None."""
        curves = self.value.curves
        curve_by_run = {
            name: i for i, curve in enumerate(curves) for point in curve.points for name in point.runs
        }
        return [{**row, "curve": curve_by_run.get(row["name"])} for row in super().rows()]


_ROW_FIELDS = (
    "model", "batch_size_global", "steps", "images_per_sec", "speedup", "stragglers", "loss_trend", "has_nan",
)  # fmt: skip


def _figures(metric: MetricSummary, row: Mapping[str, Any]) -> list[float | None]:
    """The number that stands for a metric, the best one, and the standard error (`RunRow.values`).

    Runs are ranked by the best one; of a rate, that is its mean.
    """
    is_rate = metric.name == RATE and row["images_per_sec"] is not None
    headline = row["images_per_sec"] if is_rate else metric.headline_value
    best = metric.best if metric.mean is None else headline
    return [json_number(value) for value in (headline, best, row["uncertainty"] if is_rate else None)]


def json_number(value: Any) -> Any:
    """Rounds a float to six significant digits; one that is not finite becomes None, for JSON."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if math.isfinite(value) else None


MAX_POINTS = 400  # per line: as many as a chart can resolve
MIN_POINTS = 50
POINTS = 40_000  # over all runs, of one metric
MESSAGE_BYTES = 100_000
MAX_KNOTS = 100  # of each x axis besides steps
FIRST_CHARTS = 2  # whose lines are sent unasked


class ComparisonStream(DashboardStream):
    """Overlaid lines of runs, or a scaling study; the page says which metrics it draws.

    A page that says hello is sent all lines again.
    """

    script = "comparison_view"
    _model: ComparisonModel

    _sent: dict[tuple[int, str], int]  # versions of lines by run and metric
    _drawn: tuple[str, ...] = ()  # metrics that pages have asked for

    def on_hello(self, content: PageData) -> None:
        """A page has said hello: it has no lines yet."""
        super().on_hello(content)
        self._sent = {}

    def on_message(self, content: PageData) -> None:
        """The page says which metrics it draws."""
        if content.get("kind") == "draw":
            self._drawn = tuple(dict.fromkeys([*self._drawn, *map(str, content.get("metrics", ()))]))

    def next_message(self, limit_bytes: int) -> Batch | None:
        """The lines of the next runs for which the page is out of date, as many as fit."""
        runs: list[PageData] = []
        size, limit = 0, min(limit_bytes, MESSAGE_BYTES)
        names = self._drawn or self._first_metrics()
        for index, version in enumerate(self._model.line_versions):
            stale = [name for name in names if self._sent.get((index, name)) != version]
            if not stale:
                continue
            self._sent.update(((index, name), version) for name in stale)
            columns = line_columns(self._model.lines[index], stale, max_points(len(self._model.runs)))
            runs.append({"run": index, **columns})
            size += len(str(columns))
            if size >= limit:
                break
        return Batch({"kind": "lines", "runs": runs}) if runs else None

    def _first_metrics(self) -> tuple[str, ...]:
        """The metrics of the first charts, which a page shows unless it says otherwise."""
        charts = [chart for chart in self.state["facts"]["charts"] if chart["is_default"]][:FIRST_CHARTS]
        return tuple(line["name"] for chart in charts for line in chart["lines"])


def max_points(runs: int) -> int:
    """How many points each line may have if this many runs are drawn."""
    return max(MIN_POINTS, min(MAX_POINTS, POINTS // max(1, runs)))


def line_columns(lines: Overlay, names: Collection[str], limit: int) -> PageData:
    """A run's first lines and the last, downsampled to their last point, and time by step (`RunLines`)."""
    drawn = {traits.name: traits for traits in lines.metrics}
    metrics = {name: _segments(lines, drawn[name], limit) if name in drawn else [] for name in names}
    seconds = {} if "time" in lines.logged else lines.x_values.get("seconds")
    return {"metrics": metrics, **({"time": _columns(seconds, MAX_KNOTS)} if seconds else {})}


def _segments(lines: Overlay, traits: MetricTraits, limit: int) -> list[list[Any]]:
    """The first segments of a metric and the last, each with the x axes that are logged for it."""
    curves = lines.metrics[traits]
    axes = {axis: positions[traits] for axis, positions in lines.logged.items()}
    numbers = range(len(curves))
    return [
        [
            curves[number].name,
            *_columns(curves[number].points, limit),
            {
                axis: _columns(positions[number], MAX_KNOTS)
                for axis, positions in axes.items()
                if any(positions[number : number + 1])
            },
        ]
        for number in (*numbers[: MAX_SEGMENTS - 1], *numbers[MAX_SEGMENTS - 1 :][-1:])
    ]


def _columns(values: Mapping[float, float], limit: int) -> list[list[float | None]]:
    """Steps and values: of every n-th step and the last one.

    As n is a power of two, a growing line keeps its points, and equal steps stay equal.
    """
    all_steps, stride = sorted(values), 1
    while len(all_steps) > stride * limit:
        stride *= 2
    steps = all_steps[::stride]
    if steps and steps[-1] != all_steps[-1]:
        steps.append(all_steps[-1])
    return [[json_number(step) for step in steps], [json_number(values[step]) for step in steps]]
