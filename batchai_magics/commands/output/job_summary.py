"""The JSON that `show`, `ps` and `run` print of a job with `-o json`: no fields of Azure, no empty ones."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from batchai_magics.commands.output.resource_json import format_time
from batchai_magics.follow.job_errors import error_of
from batchai_magics.metrics.measurement import json_value
from batchai_magics.models.runs.labels import Labels

if TYPE_CHECKING:
    from batchai_magics.jobs.job_handle import Job
    from batchai_magics.metrics.runs.metric_summary import MetricSummary
    from batchai_magics.models.resources import JobResource
    from batchai_magics.records.job_error import JobError

_DIGITS = 3  # decimals of seconds


def summary_of(job: Job) -> dict[str, Any]:
    """The summary of a job, whose logs are read whole for its headline metric."""
    from batchai_magics.follow.hang_signs import hang_signs
    from batchai_magics.follow.wait_reason import with_wait_reason
    from batchai_magics.jobs.metric_settings import metric_preferences
    from batchai_magics.jobs.watch_records import stalled_s
    from batchai_magics.metrics import summarize

    resource = with_wait_reason(job.backend, job.show_with_cost())
    labels = job.labels() if job.backend.records else Labels()
    records = job.records() if resource.execution else []
    metric = summarize(records, preferences=metric_preferences()).headline if records else None
    warnings = hang_signs(job.backend, resource, stalled_s())
    return job_summary(resource, labels, metric, error_of(job.backend, resource)) | _without_empty(
        {"warnings": [*warnings]}
    )


def job_summary(
    job: JobResource, labels: Labels, metric: MetricSummary | None, error: JobError | None = None
) -> dict[str, Any]:
    """The summary of a job, with its headline metric and error: times in UTC, durations in seconds."""
    now, execution = datetime.now(timezone.utc), job.execution
    started, ended = (execution.started, execution.ended) if execution else (None, None)
    durations = {"waited_s": (started or now) - job.provisioning.created}
    if started:
        durations["elapsed_s"] = (ended or now) - started
    facts = {
        **state_summary(job),
        **{name: round(max(0.0, time.total_seconds()), _DIGITS) for name, time in durations.items()},
        "nodes": job.spec.node_count,
        "processes": len(job.ranks) or None,
        "attempts": len(job.attempts) or None,
        "waiting": job.waiting,
        "cost": job.cost and round(job.cost.amount, 6),
        "currency": job.cost and job.cost.currency,
        "parameters": dict(labels.parameters),
        "tags": list(labels.tags),
        "note": labels.note,
        "metric": _metric(metric) if metric else None,
        "failure": error.to_data() if error else {},
    }
    return _without_empty(facts)


def state_summary(job: JobResource) -> dict[str, Any]:
    """Name, state, exit code and times of a job, as far as it has them."""
    execution = job.execution
    times = {
        "created": job.provisioning.created,
        "started": execution and execution.started,
        "ended": execution and execution.ended,
    }
    texts = {name: format_time(moment) for name, moment in times.items() if moment}
    exit_code = execution.exit_code if execution else None
    head = {"name": job.id.name, "experiment": job.id.experiment, "state": job.word}
    return _without_empty({**head, "exit_code": exit_code, **texts})


def _metric(metric: MetricSummary) -> dict[str, Any]:
    best = {"best": metric.best, "best_step": metric.best_step}
    figures = {"value": metric.headline_value, "step": metric.last_step, **best}
    numbers = {name: json_value(figure) for name, figure in figures.items()}
    return _without_empty({"name": metric.name, "unit": metric.unit, **numbers})


def _without_empty(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts without those that are empty."""
    return {name: value for name, value in facts.items() if value not in (None, "", [], {})}
