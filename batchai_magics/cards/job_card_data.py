"""Collects the contents of a job's card from its handle."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timezone

from batchai_magics.backends.base import FileRef
from batchai_magics.cards.job_card import JobCard, first_failure, recent_lines, to_html
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_logs import last_lines, progress_of
from batchai_magics.jobs.latest_metrics import latest_metrics
from batchai_magics.jobs.metric_settings import metric_preferences
from batchai_magics.metrics import Record, summarize
from batchai_magics.metrics.runs.metric_traits import NO_PREFERENCES, MetricPreferences
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.job_execution import ERR, OUT
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import Cluster, JobResource

READ_LINES = 500  # of which LAST_LINES are shown, once lines of log() are folded
LAST_LINES = 20
FAILURE_LINES = 12
MOST_RATES = 8
MOST_METRICS = 10  # with their figures …
MOST_NAMES = 20  # … and by name only


def job_html(job: Job) -> str:
    """The job as an HTML card."""
    return to_html(job_card(job))


def job_card(job: Job) -> JobCard:
    """The card of a job: state, metrics, first failure, last log lines."""
    shown = job.show()
    return JobCard(
        job=shown,
        now=datetime.now(timezone.utc),
        processes=len(shown.ranks),
        metrics=metrics_of(job.records(), metric_preferences()),
        progress=progress_of(job.backend, shown),
        lines=recent_lines(last_lines(job.backend, FileRef(job.id, OUT), READ_LINES), LAST_LINES),
        failure_lines=_failure_lines(job, shown, FAILURE_LINES),
    )


def short_card(job: Job, failure_lines: int) -> JobCard:
    """The card of a job without its last lines, made from the ends of its logs."""
    shown = job.show()
    metric = latest_metrics(job.backend, shown, metric_preferences()).headline
    return JobCard(
        job=shown,
        now=datetime.now(timezone.utc),
        counts=_counts(job, shown),
        processes=len(shown.ranks),
        metrics={metric.summary.label: metric.summary.text} if metric and metric.summary else {},
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
