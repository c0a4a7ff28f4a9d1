"""What every display of a job shows, collected from the job's handle."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import groupby

from batchai_magics.backends.base import FileRef
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_logs import (
    has_progress,
    last_lines,
    progress_of,
    progress_text,
    script_name,
    with_cell_lines,
)
from batchai_magics.jobs.latest_metrics import LogEnds
from batchai_magics.jobs.metric_settings import metric_preferences
from batchai_magics.log_lines import visible_text
from batchai_magics.metrics import Record, summarize
from batchai_magics.metrics.progress.progress_reader import Progress
from batchai_magics.metrics.reading.line_splitter import strip_controls
from batchai_magics.metrics.runs.metric_traits import NO_PREFERENCES, MetricPreferences
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.job_execution import ERR, OUT, RankExit, node_name
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import Cluster, JobResource
from batchai_magics.models.states import NodeState

MAX_LINES = 40
LOG_RECORD = re.compile(r'^\{"time": \d+(?:\.\d+)?, (?:"rank": \d+, )?"(?:step|epoch|params)": ')
"""What a line of log() starts with (`RECORD` in widgets/frontend/job/log_rows.js)."""
MAX_LINE_LENGTH = 300
MISSING_MODULE = re.compile(r"^\s*ModuleNotFoundError: No module named '(?P<name>[\w.]+)'")
READ_LINES = 500  # of which LAST_LINES are shown, once lines of log() are folded
LAST_LINES = 20
FAILURE_LINES = 12
MOST_RATES = 8
MOST_METRICS = 10  # with their figures …
MOST_NAMES = 20  # … and by name only


@dataclass(frozen=True)
class JobOverview:
    """A job as every display shows it.

    `failure_lines` are the last lines of the process that failed first; `activity` says what a job without
    output is doing. `now` is when it was collected, the end of the elapsed time of a running job.
    `reopen_command` reopens the live view. `is_refreshed`: it tells when it was made, until the job ends.
    `notices` say which numbers of the log were not read, and why.
    """

    job: JobResource
    now: datetime
    processes: int = 0
    counts: NodeStateCounts | None = None
    metrics: Mapping[str, str] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    failure_lines: tuple[str, ...] = ()
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
        cluster = spec.cluster.id.rstrip("/").rsplit("/", 1)[-1]
        if not self.processes:
            return f"{cluster} · {nodes}"
        each, rest = divmod(self.processes, spec.node_count)
        spread = (
            f"{nodes}, {self.processes} process{'es' * (self.processes != 1)}"
            if rest
            else f"{nodes} × {each} process{'es' * (each != 1)}"
        )
        return f"{cluster} · {spread}"

    @property
    def elapsed(self) -> str:
        """How long the job has run, or waited if it did not start: `1:02:03`."""
        execution = self.job.execution
        start = execution.started if execution else self.job.provisioning.created
        end = execution.ended if execution and execution.ended else self.now
        return elapsed_time((end - start).total_seconds())

    @property
    def failure(self) -> list[str]:
        """The last lines of the first failure, with locations in the cell's script also as cell lines."""
        return with_cell_lines(clean_lines(self.failure_lines), script_name(self.job))

    @property
    def details(self) -> dict[str, str]:
        """The labelled details besides state and name."""
        execution = self.job.execution
        facts = {"elapsed": self.elapsed}
        if self.progress and has_progress(self.job):
            facts["progress"] = progress_text(self.job, self.progress, self.now.timestamp())
        if self.job.cost:
            facts["cost"] = self.job.cost.text
        if execution and execution.exit_code is not None:
            facts["exit code"] = str(execution.exit_code)
        if self.counts is not None and not self.job.state.is_final:
            facts["nodes"] = _nodes(self.counts)
        if self.is_refreshed and not self.job.state.is_final:
            facts["updated"] = f"{self.now.astimezone():%Y-%m-%d %H:%M:%S}"
        return {**facts, **_attempts(self.job), **self._activity_detail, **self.metrics}

    @property
    def _activity_detail(self) -> dict[str, str]:
        if self.job.waiting:
            return {"waits": self.job.waiting}
        return {"now": self.activity} if self.activity else {}

    @property
    def problems(self) -> list[str]:
        """Why the job failed: its first failed process, else the errors of the service."""
        execution, first = self.job.execution, first_failure(self.job)
        if first:
            meaning = f": {first.meaning}" if first.meaning else ""
            node = node_name(first.node)
            text = f"rank {first.rank} on {node} failed first, with exit code {first.exit_code}"
            return [f"{text}{meaning}", *self._missing_module]
        if execution is None or self.job.is_cancelled:
            return []
        return [f"{error.code}: {error.message}" for error in execution.errors if not error.is_warning]

    @property
    def _missing_module(self) -> list[str]:
        """Which Python lacks a module, and how the job gets it."""
        found = next((match for line in self.failure_lines if (match := MISSING_MODULE.search(line))), None)
        if found is None:
            return []
        python = getattr(self.job.spec.settings, "python_interpreter_path", None)
        where = python or "the Python of the nodes (`python` on their PATH)"
        package = found["name"].partition(".")[0]
        return [f"{where} has no module {found['name']}: add --with {package}, or install it with --prep"]

    @property
    def warnings(self) -> list[str]:
        """What is worth a look and made no failure of the job."""
        execution = self.job.execution
        errors = [error.message for error in (execution.errors if execution else ()) if error.is_warning]
        return [*errors, *self.notices]


def _attempts(job: JobResource) -> dict[str, str]:
    if not job.attempts:
        return {}
    earlier = "; ".join(each.sentence for each in job.attempts if each.reason)
    return {"attempt": str(len(job.attempts)), "earlier": earlier}


def _nodes(counts: NodeStateCounts) -> str:
    present = [state for state in NodeState if counts.of(state)]
    return ", ".join(f"{counts.of(state)} {state.value}" for state in present) or "none yet"


def first_failure(job: JobResource) -> RankExit | None:
    """The process that failed first; None if none did or the job was terminated from outside."""
    if job.execution is None or job.execution.exit_code is None:
        return None
    return next((rank for rank in job.ranks if rank.exit_code), None)


def job_overview(job: Job) -> JobOverview:
    """The overview of a job: state, metrics, first failure, last log lines."""
    shown, records = job.show_with_cost(), job.records()
    return JobOverview(
        job=shown,
        now=datetime.now(timezone.utc),
        processes=len(shown.ranks),
        metrics=metrics_of(records, metric_preferences()),
        notices=() if records else LogEnds(job.backend, shown, job.patterns).notices,
        progress=progress_of(job.backend, shown),
        lines=recent_lines(last_lines(job.backend, FileRef(job.id, OUT), READ_LINES), LAST_LINES),
        failure_lines=_failure_lines(job, shown, FAILURE_LINES),
    )


def short_overview(job: Job, failure_lines: int) -> JobOverview:
    """The overview of a job without its last lines, made from the ends of its logs."""
    shown = job.show_with_cost()
    ends = LogEnds(job.backend, shown, job.patterns)
    found = ends.metrics(metric_preferences())
    metric = found.headline
    return JobOverview(
        job=shown,
        now=datetime.now(timezone.utc),
        counts=_counts(job, shown),
        processes=len(shown.ranks),
        metrics={metric.summary.label: metric.summary.text} if metric and metric.summary else {},
        notices=ends.notices,
        progress=progress_of(job.backend, shown),
        failure_lines=_failure_lines(job, shown, failure_lines),
    )


def _counts(job: Job, shown: JobResource) -> NodeStateCounts | None:
    """The nodes of the job's cluster by state, while it waits for them or runs."""
    if shown.state.is_final:
        return None
    cluster = job.backend.show(ResourceId.parse(shown.spec.cluster.id))
    return cluster.node_states if isinstance(cluster, Cluster) else None


def _failure_lines(job: Job, shown: JobResource, count: int) -> tuple[str, ...]:
    if not shown.has_failed:
        return ()
    first = first_failure(shown)
    return last_lines(job.backend, FileRef(job.id, ERR), count, rank=first.rank if first else None)


def metrics_of(
    records: Collection[Record], preferences: MetricPreferences = NO_PREFERENCES
) -> dict[str, str]:
    """The metrics of a log by label, the headline's first; empty if there are none."""
    if not records:
        return {}
    summary = summarize(records, preferences=preferences)
    shown = [metric for metric in summary.metrics if not metric.is_timer] or summary.metrics
    rest = [metric.label for metric in shown[MOST_METRICS:]]
    texts = {
        **{metric.label: metric.text for metric in shown[:MOST_METRICS]},
        "more metrics": ", ".join(rest[:MOST_NAMES]) + (" …" if len(rest) > MOST_NAMES else ""),
        "by rank": _by_rank(summary.rates),
        "steps": f"{summary.steps:,}" if summary.steps else "",
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


def recent_lines(lines: tuple[str, ...], count: int) -> tuple[str, ...]:
    """The last lines, with consecutive ones of log() as one."""
    folded: list[str] = []
    for is_record, group in groupby(lines, lambda line: LOG_RECORD.match(line) is not None):
        same = list(group)
        folded += [f"… {len(same)} log() records"] if is_record and len(same) > 1 else same
    return tuple(folded[-count:])


def clean_lines(lines: tuple[str, ...]) -> list[str]:
    """The last lines as a terminal would show them, with limited length."""
    tails = (strip_controls(visible_text(line)) for line in lines[-MAX_LINES:])
    return [line if len(line) <= MAX_LINE_LENGTH else line[:MAX_LINE_LENGTH] + " …" for line in tails]


def elapsed_time(seconds: float) -> str:
    """A duration: `0:07`, `12:31`, `3:04:05`."""
    whole = max(0, int(seconds))
    minutes, hours = whole // 60, whole // 3600
    return f"{hours}:{minutes % 60:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
