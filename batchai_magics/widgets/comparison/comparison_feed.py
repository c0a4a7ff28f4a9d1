"""Compared runs as they are now: several jobs followed side by side, and the feed that all views share."""

from __future__ import annotations

import html
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from batchai_magics.backends.base import FileRef
from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.follow import METRICS_FILES, Event, Follower, LogBytes, MetricsAdded, StateChanged
from batchai_magics.jobs.job_handle import Job
from batchai_magics.metrics import Comparison, Scaling, summarize
from batchai_magics.metrics.charts.comparison_chart import Overlay, overlay
from batchai_magics.metrics.record import Record
from batchai_magics.metrics.runs.compared_runs import Run
from batchai_magics.metrics.runs.metric_traits import NO_PREFERENCES
from batchai_magics.metrics.runs.scaling import scaling_so_far
from batchai_magics.metrics.runs.scaling_curve import ScalingCurve, workers
from batchai_magics.models.states import CANCELLED, STOPPED
from batchai_magics.widgets.core.display import Bundle, figure
from batchai_magics.widgets.core.feed import DashboardFeed, PageData

POLL_S = 1.0  # poll interval of the jobs
DELETED = "deleted"


@dataclass(frozen=True)
class RecordsAdded:
    """New records of a run. With `is_restarted` its log was truncated: earlier records are void."""

    run_index: int
    records: Collection[Record]
    is_restarted: bool = False


@dataclass(frozen=True)
class RunStateChanged:
    """A run has a new state."""

    run_index: int
    state: str


@dataclass(frozen=True)
class PollCompleted:
    """All jobs have been polled once."""


ComparisonEvent = RecordsAdded | RunStateChanged | PollCompleted


class ComparisonSource:
    """Jobs by run index, each followed to its end; of their logs only stdout is read.

    A job that is deleted meanwhile ends with the records read so far.
    """

    def __init__(self, jobs: Mapping[int, Job], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due_at = clock()
        self._followers = {
            index: Follower(
                job.backend, job.id, [FileRef(job.id, file) for file in METRICS_FILES], job.patterns
            )
            for index, job in jobs.items()
        }

    @property
    def is_over(self) -> bool:
        """Whether all jobs have ended and their logs have been read."""
        return all(follower.is_over for follower in self._followers.values())

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read immediately."""
        return any(follower.is_behind for follower in self._followers.values())

    def poll(self) -> list[ComparisonEvent]:
        """Returns the events since the last poll; polls at most once per second."""
        if self._clock() < self._due_at and not self.is_behind:
            return []
        self._due_at = self._clock() + POLL_S
        events = [event for index in self._followers for event in self._poll_run(index)]
        return [*events, PollCompleted()]

    def _poll_run(self, index: int) -> list[ComparisonEvent]:
        follower = self._followers[index]
        try:
            return [item for event in follower.poll() for item in _events_of(index, event)]
        except NotFoundError:
            follower.is_over, follower.is_behind = True, False
            return [RunStateChanged(index, DELETED)]


def _events_of(index: int, event: Event) -> list[ComparisonEvent]:
    if isinstance(event, MetricsAdded):
        return [RecordsAdded(index, event.records)]
    if isinstance(event, StateChanged):
        return [RunStateChanged(index, event.job.word)]
    if isinstance(event, LogBytes) and event.restarted:
        return [RecordsAdded(index, (), is_restarted=True)]
    return []


MAX_CPU_SHARE = 0.05  # of a core, for summarizing the runs again
MAX_INTERVAL_S = 10.0  # between two summaries, whatever they cost
LOG_STATE = "log"  # the state of a run read from a log file
FINAL_STATES = (LOG_STATE, DELETED, "succeeded", "failed", CANCELLED, STOPPED)


class ComparisonFeed(DashboardFeed[ComparisonEvent]):
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
        self._records: dict[int, list[Record]] = {index: [] for index in self.jobs}
        self._changed: set[int] = set()

    def take(self, event: ComparisonEvent) -> None:
        """Applies an event."""
        if isinstance(event, RunStateChanged):
            self.states[event.run_index] = event.state
            self.version += 1
        elif isinstance(event, RecordsAdded):
            if event.is_restarted:
                self._records[event.run_index].clear()
            self._records[event.run_index].extend(event.records)
            self._changed.add(event.run_index)
        elif isinstance(event, PollCompleted) and self._clock() >= self._due_at:
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
        """What the view's header shows (`ComparisonFacts` in frontend/core/messages.d.ts)."""
        going = sum(state not in FINAL_STATES for state in self.states)
        return {"kind": self.kind, "jobs": len(self.jobs), "going": going, "problem": self.problem}

    def rows(self) -> list[PageData]:
        """The runs (`RunRow` in frontend/core/messages.d.ts)."""
        rows = Comparison(self.runs).rows()
        return [
            {
                **{name: json_number(row[name]) for name in _ROW_FIELDS},
                "name": run.name,
                "state": state,
                "workers": workers(run) if run.summary.ranks or run.summary.device_count else None,
            }
            for run, row, state in zip(self.runs, rows, self.states, strict=True)
        ]

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
        if self._changed:
            self.version += 1
        self._changed.clear()
        self._due_at = self._clock() + min(MAX_INTERVAL_S, (self._cpu_time() - began) / MAX_CPU_SHARE)

    def _summarize_run(self, index: int) -> None:
        run, records = self.runs[index], tuple(self._records[index])
        is_running = self.states[index] not in FINAL_STATES
        summary = summarize(records, preferences=self.preferences)
        grown = replace(run, records=records, summary=summary, is_running=is_running)
        self.runs = (*self.runs[:index], grown, *self.runs[index + 1 :])
        self.lines[index] = overlay(grown)
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
    "model", "processes", "batch_size_global", "steps", "images_per_sec", "uncertainty", "jitter", "speedup",
    "stragglers", "last_loss", "loss_trend", "has_nan",
)  # fmt: skip


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


def _running_job(run: Run) -> Job | None:
    """The job to be followed, if the run is still running."""
    return run.source if run.is_running and isinstance(run.source, Job) else None


def _state_of(run: Run) -> str:
    return run.source.show().word if isinstance(run.source, Job) else LOG_STATE
