"""The overview of a job for all displays, collected from the job's handle."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from batchai_magics.follow.hang_signs import hang_signs
from batchai_magics.follow.job_errors import error_of
from batchai_magics.follow.wait_reason import with_wait_reason
from batchai_magics.jobs.job_costs import JobCosts
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_logs import has_progress, progress_text, saving_text
from batchai_magics.jobs.job_model import JobModel, read_model
from batchai_magics.jobs.log_tail import recent_lines
from batchai_magics.jobs.metric_settings import metric_preferences
from batchai_magics.jobs.watch_records import stalled_s
from batchai_magics.metrics import Record, summarize
from batchai_magics.metrics.reading.progress_reader import Progress
from batchai_magics.metrics.runs.metric_traits import NO_PREFERENCES, MetricPreferences
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.job_execution import ERR, OUT
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState, NodeState
from batchai_magics.records.job_error import JobError

MODEL_BYTES = 1 << 18  # of each log, with many lines of log()
READ_LINES = 500  # LAST_LINES of them are shown, once lines of log() are folded
LAST_LINES = 20
MOST_RATES = 8
MOST_METRICS = 10  # with their figures …
MOST_NAMES = 20  # … and by name only


@dataclass(frozen=True)
class JobOverview:
    """A job as every display shows it.

    `error` is why it failed, `activity` what a job without output is doing. `now` is when the overview was
    collected, the end of the elapsed time of a running job. `reopen_command` reopens the live view.
    `is_refreshed`: it shows that time, until the job ends. `notices` name the numbers of the log that were
    not read, and why.
    """

    job: JobResource
    now: datetime
    processes: int = 0
    counts: NodeStateCounts | None = None
    metrics: Mapping[str, str] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    error: JobError | None = None
    reopen_command: str = ""
    progress: Progress | None = None
    activity: str = ""
    is_refreshed: bool = False
    notices: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Where the job runs, and its size: `default · 2 nodes × 2 processes`."""
        spec = self.job.spec
        nodes = f"{spec.node_count} node{'s' * (spec.node_count != 1)}"
        if not self.processes:
            return f"{spec.cluster_name} · {nodes}"
        per_node, remainder = divmod(self.processes, spec.node_count)
        spread = (
            f"{nodes}, {self.processes} process{'es' * (self.processes != 1)}"
            if remainder
            else f"{nodes} × {per_node} process{'es' * (per_node != 1)}"
        )
        return f"{spec.cluster_name} · {spread}"

    @property
    def elapsed(self) -> str:
        """How long the job has run, or waited if it did not start: `1:02:03`."""
        return self.job.elapsed(self.now)

    @property
    def failure_lines(self) -> tuple[str, ...]:
        """The last lines of the process that failed first."""
        return self.error.lines if self.error else ()

    @property
    def details(self) -> dict[str, str]:
        """The labelled details besides state and name."""
        job = self.job
        facts = {
            "elapsed": self.elapsed,
            "progress": self._progress,
            "cost": job.cost.text if job.cost else None,
            "exit code": self._exit_code,
            "nodes": self._node_counts,
        }
        if self.is_refreshed and not job.state.is_final:  # a saved notebook may show it much later
            facts["elapsed"] = f"{self.elapsed}, as of {self.now.astimezone():%Y-%m-%d %H:%M:%S}"
        if job.attempts:
            facts["attempt"] = str(len(job.attempts))
            facts["earlier"] = "; ".join(attempt.sentence for attempt in job.attempts if attempt.reason)
        if job.waiting:
            facts["waits"] = job.waiting
        elif self.activity:
            facts["now"] = self.activity
        return {**{label: text for label, text in facts.items() if text is not None}, **self.metrics}

    @property
    def _progress(self) -> str | None:
        if saving := saving_text(self.job):
            return saving
        if self.progress is None or not has_progress(self.job):
            return None
        return progress_text(self.job, self.progress, self.now.timestamp())

    @property
    def _exit_code(self) -> str | None:
        """The exit code, with its rank and node."""
        if self.job.execution is None or self.job.execution.exit_code is None:
            return None
        error = self.error
        process = f" (rank {error.rank} on {error.node})" if error and error.rank is not None else ""
        return f"{self.job.execution.exit_code}{process}"

    @property
    def _node_counts(self) -> str | None:
        """The number of nodes by state, until the job has ended."""
        if self.counts is None or self.job.state.is_final:
            return None
        present = [f"{count} {state.value}" for state in NodeState if (count := self.counts.of(state))]
        return ", ".join(present) or "none yet"

    @property
    def problems(self) -> list[str]:
        """Why the job failed, and hints; why it was stopped."""
        if self.error:
            return [self.error.sentence, *self.error.hints]
        return [] if self.job.is_cancelled else [error.message for error in self.job.failures]

    @property
    def warnings(self) -> list[str]:
        """Problems that did not make the job fail."""
        return [*(warning.message for warning in self.job.warnings), *self.notices]


def overview_of(model: JobModel, job: JobResource, **more: Any) -> JobOverview:
    """The overview of a model's job: progress, last lines, and other fields of the overview in `more`."""
    log = OUT if job.has_failed or (OUT in model.tails and model.tails[OUT].size) else ERR
    tail = model.tails.get(log)
    return JobOverview(
        job=job,
        now=datetime.now(timezone.utc),
        progress=model.progress,
        **{
            "lines": recent_lines(tail.lines(READ_LINES), LAST_LINES) if tail else (),
            "processes": len(job.ranks),
            "counts": model.counts,
            "notices": model.notices,
            **more,
        },
    )


def job_overview(job: Job) -> JobOverview:
    """The overview of a job: state, metrics, first failure, last log lines."""
    shown = with_wait_reason(job.backend, job.show())
    if shown.state is ExecutionState.QUEUED and not (shown.execution or shown.attempts):
        return JobOverview(shown, datetime.now(timezone.utc))  # nothing to read yet, and no cost
    shown = shown.with_cost(JobCosts(job.backend).of_job(shown))
    records = job.records()
    model = read_model(job.backend, shown, job.patterns, tail_bytes=MODEL_BYTES)
    return overview_of(
        model,
        shown,
        metrics=metrics_of(records, metric_preferences()),
        notices=(*hang_signs(job.backend, shown, stalled_s()), *(() if records else model.notices)),
        error=error_of(job.backend, shown),
    )


def short_overview(job: Job) -> JobOverview:
    """The overview of a job without its last lines, made from the ends of its logs."""
    shown = with_wait_reason(job.backend, job.show_with_cost())
    model = read_model(job.backend, shown, job.patterns, preferences=metric_preferences())
    metric, counts = model.metrics.headline, None
    if shown.execution and not shown.state.is_final:
        counts = NodeStateCounts.counting(node.state for node in job.backend.nodes(job.id))
    return overview_of(
        model,
        shown,
        counts=counts,
        metrics={metric.summary.label: metric.summary.text} if metric and metric.summary else {},
        notices=(*hang_signs(job.backend, shown, stalled_s()), *model.notices),
        error=error_of(job.backend, shown),
        lines=(),
    )


def metrics_of(
    records: Collection[Record], preferences: MetricPreferences = NO_PREFERENCES
) -> dict[str, str]:
    """The metrics of a log by label, the headline's first; empty if there are none."""
    if not records:
        return {}
    summary = summarize(records, preferences=preferences)
    shown = [metric for metric in summary.metrics if not metric.is_timer] or summary.metrics
    more_names = [metric.label for metric in shown[MOST_METRICS:]]
    texts = {
        **{metric.label: metric.text for metric in shown[:MOST_METRICS]},
        "more metrics": ", ".join(more_names[:MOST_NAMES]) + (" …" if len(more_names) > MOST_NAMES else ""),
        "by rank": _by_rank(summary.rates),
        summary.step_unit: f"{summary.steps:,}" if summary.steps else "",
        "model": summary.model or "",
        "batch size": str(summary.batch_size_global or ""),
    }
    return {label: text for label, text in texts.items() if text}


def _by_rank(rates: Mapping[int, float] | None) -> str:
    if not rates or len(rates) < 2:
        return ""
    if len(rates) > MOST_RATES:
        return f"{min(rates.values()):,.1f} to {max(rates.values()):,.1f}"
    return ", ".join(f"{rank}: {rate:,.1f}" for rank, rate in rates.items())
