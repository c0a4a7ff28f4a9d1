"""Compared runs as they are now: the feed that all views share."""

from __future__ import annotations

import html
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from batchai_magics.errors import BatchAIError
from batchai_magics.follow import LogBytes, MetricsAdded, StateChanged
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.metrics import Comparison, Scaling, summarize
from batchai_magics.metrics.charts.comparison_chart import Overlay, overlay
from batchai_magics.metrics.runs.compared_runs import Run, aligned
from batchai_magics.metrics.runs.metric_summary import MetricSummary
from batchai_magics.metrics.runs.metric_traits import NO_PREFERENCES, Kind, MetricTraits, charts_of
from batchai_magics.metrics.runs.run_metrics import AXES, RATE
from batchai_magics.metrics.runs.scaling import scaling_so_far
from batchai_magics.metrics.runs.scaling_curve import ScalingCurve, workers
from batchai_magics.models.runs.labels import Labels
from batchai_magics.models.states import CANCELLED, STOPPED
from batchai_magics.widgets.comparison.comparison_source import (
    ComparisonEvent,
    LabelsRead,
    RunEvents,
)
from batchai_magics.widgets.core.display import Bundle, figure
from batchai_magics.widgets.core.feed import FigureFeed, PageData
from batchai_magics.widgets.job.job_charts import chart_fields
from batchai_magics.widgets.job.job_header import progress_fields

MAX_CPU_SHARE = 0.05  # of a core, for summarizing the runs again
MAX_INTERVAL_S = 10.0  # between two summaries, whatever they cost
LOG_STATE = "log"  # the state of a run read from a log file
DELETED = "deleted"
MAX_METRICS = 12  # columns
WITHOUT_PROGRESS = ("succeeded", "queued", "log", "deleted")
SUCCEEDED = ("succeeded", LOG_STATE)
FINAL_STATES = (LOG_STATE, DELETED, "succeeded", "failed", CANCELLED, STOPPED)


class ComparisonFeed(FigureFeed[ComparisonEvent]):
    """The current state of the runs. `version` increases with every change; `lines` hold the overlay's data.

    `runs` and `lines` are updated after each poll, or less often if that would exceed `MAX_CPU_SHARE`, and
    once more at the end. `cpu_time` returns the thread's CPU time in seconds, so that other load on the
    machine causes no delay.
    """

    noun = "comparison"
    kind = "compare"

    def __init__(
        self,
        runs: Sequence[Run],
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu_time: Callable[[], float] = time.thread_time,
    ) -> None:
        super().__init__()
        self.runs = tuple(runs)
        self.preferences = NO_PREFERENCES
        self.jobs = {index: job for index, run in enumerate(runs) if (job := _running_job(run))}
        self.states = [_state_of(run) for run in runs]
        self.lines: list[Overlay] = [overlay(run) for run in runs]
        self.line_versions = [1] * len(runs)
        self._clock, self._cpu_time = clock, cpu_time
        self._due_at = clock()
        self._models = {index: JobModel() for index in self.jobs}
        self._changed: set[int] = set()
        self._has_news = False  # of progress or labels

    def take(self, event: ComparisonEvent) -> None:
        """Applies an event."""
        if isinstance(event, RunEvents):
            self._take_events(event)
        elif isinstance(event, LabelsRead):
            self._relabel(event.labels)
        else:
            self._set_state(event.run_index, DELETED)

    def _take_events(self, told: RunEvents) -> None:
        model = self._models[told.run_index]
        progress = model.progress
        for event in told.events:
            model.take(event)
            if isinstance(event, StateChanged):
                self._set_state(told.run_index, event.job.word, len(event.job.ranks))
            elif isinstance(event, MetricsAdded) or (isinstance(event, LogBytes) and event.restarted):
                self._changed.add(told.run_index)
        model.poll_ended()
        self._has_news |= model.progress != progress

    def _set_state(self, index: int, state: str, processes: int = 0) -> None:
        """Sets the state of a run; `processes` are those of its job once it has ended."""
        self.states[index] = state
        run = self.runs[index]
        is_running = state not in FINAL_STATES
        self._replace_run(index, replace(run, is_running=is_running, processes=processes or run.processes))
        self.version += 1

    def poll_ended(self) -> None:
        """All jobs have been polled once."""
        if (self._changed or self._has_news) and self._clock() >= self._due_at:
            self._summarize()

    def end(self) -> None:
        """Summarizes all runs a last time: their jobs have ended."""
        self._changed.update(self.jobs)  # their state has changed
        self._summarize()
        super().end()

    @property
    def is_at_rest(self) -> bool:
        """Always True; a queued job may start at any time."""
        return True

    @property
    def has_ended(self) -> bool:
        """Whether all jobs have ended according to the backend, even if the feed has not seen it yet."""
        try:
            return all(job.is_done for job in self.jobs.values())
        except BatchAIError:
            return False

    @property
    def way_back(self) -> str:
        """The command that compares the runs again."""
        return f"%batchai {self.kind} {' '.join(run.name for run in self.runs)}"

    @property
    def value(self) -> Comparison | Scaling:
        """The current runs, as `compare` returns them."""
        return Comparison(self.runs, self.preferences)

    def facts(self) -> PageData:
        """What the view's header and charts show (`ComparisonFacts` in frontend/core/messages.d.ts)."""
        going = sum(state not in FINAL_STATES for state in self.states)
        value = Comparison(self.runs, self.preferences)
        traits = value.traits
        return {
            "kind": self.kind,
            "jobs": len(self.jobs),
            "going": going,
            "problem": self.problem,
            "parameters": list(value.parameters),
            "metrics": [self._metric(value, each) for each in traits if each.kind is not Kind.TIMER][
                :MAX_METRICS
            ],
            "charts": [
                chart_fields(chart, self.preferences) for chart in charts_of(traits, self.preferences)
            ],
            "axis": _axis_of(self.runs),
            "baseline": next((i for i, run in enumerate(self.runs) if run.is_baseline), None),
            "sentences": value.seed_groups(lambda index: self.states[index] in SUCCEEDED).sentences(),
        }

    def _metric(self, value: Comparison, traits: MetricTraits) -> PageData:
        return {
            "name": traits.name,
            "label": traits.label,
            "direction": self.preferences.direction(traits).value,
            "best": value.best_run(traits),
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
                "progress": self._progress_of(place),
                "values": {metric.name: _figures(metric, row) for metric in run.metrics},
            }
            for place, (run, row, state) in enumerate(zip(self.runs, value.rows(), self.states, strict=True))
        ]

    def _progress_of(self, place: int) -> PageData | None:
        model = self._models.get(place)
        progress = model.progress if model else None
        return progress_fields(progress) if progress and self.states[place] not in WITHOUT_PROGRESS else None

    def bundle(self) -> Bundle:
        """The table as HTML and text."""
        value = self.value
        ends = self._unsuccessful()
        text = f"{value!r}\n{ends}" if ends else repr(value)
        return {
            "text/html": f"{value._repr_html_()}<p>{html.escape(ends)}</p>" if ends else value._repr_html_(),
            "text/plain": text,
        }

    def chart(self) -> Bundle:
        """The figure as a PNG with a text equivalent."""
        names = ", ".join(run.name for run in self.runs)
        return figure(self.value.plot(), f"Chart of {names}")

    def _unsuccessful(self) -> str:
        """The jobs that still run or did not succeed, as a sentence."""
        states = [
            f"{run.name}: {state}"
            for run, state in zip(self.runs, self.states, strict=True)
            if state not in ("succeeded", LOG_STATE)
        ]
        return f"{', '.join(states)}." if states else ""

    def _summarize(self) -> None:
        """Summarizes the runs with new records."""
        began = self._cpu_time()
        for index in self._changed:
            self._summarize_run(index)
        self._align()
        if self._changed or self._has_news:
            self.version += 1
        self._changed.clear()
        self._has_news = False
        self._due_at = self._clock() + min(MAX_INTERVAL_S, (self._cpu_time() - began) / MAX_CPU_SHARE)

    def _relabel(self, labels: Mapping[int, Labels]) -> None:
        """Applies the labels of some runs."""
        for index, given in labels.items():
            if given != self.runs[index].labels:
                self._replace_run(index, replace(self.runs[index], labels=given))
                self._has_news = True

    def _replace_run(self, index: int, run: Run) -> None:
        self.runs = (*self.runs[:index], run, *self.runs[index + 1 :])

    def _summarize_run(self, index: int) -> None:
        run, records = self.runs[index], tuple(self._models[index].records)
        is_running = self.states[index] not in FINAL_STATES
        summary = summarize(records, preferences=self.preferences)
        grown = replace(run, records=records, summary=summary, is_running=is_running)
        self._replace_run(index, grown)
        self._draw(index)

    def _align(self) -> None:
        """Names metrics as all runs do now."""
        before = [run.shared for run in self.runs]
        self.runs = aligned(self.runs)
        for index, run in enumerate(self.runs):
            if run.shared != before[index]:
                self._draw(index)

    def _draw(self, index: int) -> None:
        self.lines[index] = overlay(self.runs[index])
        self.line_versions[index] += 1


class ScalingFeed(ComparisonFeed):
    """The runs as a scaling study."""

    noun = "study"
    kind = "scaling"
    metric = ""  # the rate; empty for images/sec

    @property
    def value(self) -> Scaling:
        """The study so far."""
        return scaling_so_far(self.runs, self.metric)

    def facts(self) -> PageData:
        """What the header and the two charts show."""
        value = self.value
        unit = "GPUs" if value.curves and all(curve.is_on_gpus for curve in value.curves) else "processes"
        curves = [_curve_columns(curve) for curve in value.curves]
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
    shown = row["images_per_sec"] if is_rate else metric.headline_value
    best = metric.best if metric.mean is None else shown
    return [json_number(each) for each in (shown, best, row["uncertainty"] if is_rate else None)]


def _curve_columns(curve: ScalingCurve) -> PageData:
    """A curve as columns of equal length (`ScalingCurve` in messages.d.ts)."""
    return {
        "label": curve.label,
        "processes": [point.processes for point in curve.points],
        "rates": [json_number(point.images_per_sec) for point in curve.points],
        "ideals": [json_number(point.ideal) for point in curve.points],
        "percents": [json_number(point.efficiency_percent) for point in curve.points],
    }


def json_number(value: Any) -> Any:
    """Rounds a float to six significant digits; one that is not finite becomes None, for JSON."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _axis_of(runs: Sequence[Run]) -> str:
    """The x axis that suits the runs: steps, or epochs if no log tells a step."""
    axes = {metric.axis for run in runs for metric in run.metrics}
    return AXES[1] if axes == {AXES[1]} else AXES[0]


def _running_job(run: Run) -> Job | None:
    """The job to be followed, if the run is still running."""
    return run.source if run.is_running and isinstance(run.source, Job) else None


def _state_of(run: Run) -> str:
    return run.source.show().word if isinstance(run.source, Job) else LOG_STATE
