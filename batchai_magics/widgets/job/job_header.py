"""The data of a job's live view for its header: details, progress, node counts and the list of charts."""

from __future__ import annotations

from collections.abc import Sequence

from batchai_magics.follow.job_errors import paths_of
from batchai_magics.jobs.job_files import directories_of
from batchai_magics.jobs.job_logs import saving_text
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.jobs.log_numbers import BAND
from batchai_magics.jobs.merged_log import MERGED
from batchai_magics.metrics.reading.progress_reader import Progress
from batchai_magics.metrics.runs.metric_traits import MetricPreferences, MetricTraits, charts_of, is_default
from batchai_magics.metrics.runs.run_metrics import RATE
from batchai_magics.models.job_execution import ERR
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import NodeState
from batchai_magics.models.wire_times import duration
from batchai_magics.widgets.core.view_stream import PageData, milliseconds

MAX_OPEN_LINE_BYTES = 400  # of an unterminated line


def facts_of(model: JobModel) -> PageData:
    """What the header shows (`JobFacts` in frontend/core/messages.d.ts); empty while nothing is known."""
    job = model.job
    if job is None:
        return {}
    failures, error = [] if job.is_cancelled else job.failures, model.error
    charts = charts_fields(model)  # without any, the page suggests an option that would read some
    return {
        **execution_of(job),
        "name": job.id.name,
        "experiment": job.id.experiment,
        "cluster": job.spec.cluster_name,
        "toolkit": job.spec.toolkit.value,
        "state": job.word,
        "nodes": job.spec.node_count,
        "processes": max(len(job.ranks), model.processes, 1),
        "errors": [{"code": error.code, "message": error.message} for error in failures],
        "warnings": [*(warning.message for warning in job.warnings), *model.hang_signs],
        "failure": error
        and {"cause": f"{error.cause[:1].upper()}{error.cause[1:]}", "hints": list(error.hints)},
        "problem": model.problem,
        "attempt": len(job.attempts),
        "before": _before(job),
        "log_faults": model.faults,
        "max_s": int(duration(job.spec.constraints.max_wall_clock_time).total_seconds()),
        "script": paths_of(job).script,
        "copies": paths_of(job).copies,
        "way_back": f"%batchai job show -n {job.id.name}",
        "warm_up": model.numbers.warm_up,
        "charts": charts,
        "axis": model.numbers.axis,
        "attempt_steps": [list(attempt) for attempt in model.numbers.attempts.items()],
        "unread": model.unread._asdict() if model.unread and not charts else None,
        "metric_notices": list(model.notices if charts else model.metric_notices),
        "standstill": model.standstill,
        "saving": saving_text(job),
        "has_ranks": model.has_ranks,
        "directories": directories_of(job.spec),
    }


def profile_fields(model: JobModel) -> PageData:
    """The latest profile of the ranks (`RunProfile` in frontend/core/messages.d.ts)."""
    if (profile := model.profile) is None:
        return {"is_running": model.is_profiling, "text": model.profile_fault}
    table = {"titles": list(profile.titles), "rows": list(map(list, profile.rows))}
    remarks = list(profile.remarks)
    return {"is_running": model.is_profiling, "text": profile.sentence, **table, "remarks": remarks}


def status_of(model: JobModel) -> PageData:
    """The job's progress and activity (`JobStatus` in frontend/core/messages.d.ts)."""
    progress = model.progress
    return {"activity": model.activity, "progress": progress and progress_fields(progress)}


def open_lines_of(model: JobModel) -> list[PageData]:
    """The unterminated last lines of stdout and stderr (`OpenLine` in frontend/core/messages.d.ts)."""
    if MERGED not in model.tails:
        return []
    return [
        {"text": line[:MAX_OPEN_LINE_BYTES].decode("utf-8", "replace"), "is_error": file == ERR}
        for file, line in model.merged.open_lines
    ]


def charts_fields(model: JobModel) -> list[PageData]:
    """The charts, the headline's first (`Chart` in frontend/core/messages.d.ts)."""
    units = dict(model.numbers.metrics)
    charts = charts_of(units, model.preferences)
    fields = [{**chart_fields(lines, model.preferences), "unit": units[lines[0]]} for lines in charts]
    for chart in fields:
        for line in chart["lines"]:
            if label := model.numbers.labels.get(line["name"]):
                line["label"] = label
        if chart["lines"][0]["name"] == RATE and model.numbers.mean_rates:
            chart["band"] = BAND.name
    return fields


def chart_fields(lines: Sequence[MetricTraits], preferences: MetricPreferences) -> PageData:
    """A chart of one quantity (`Chart` in frontend/core/messages.d.ts), without its unit."""
    first = lines[0]
    return {
        "title": first.label if len(lines) == 1 else first.quantity,
        "quantity": first.quantity,
        "direction": preferences.direction(first).value,
        "is_rate": first.is_rate,
        "is_summed": first.is_summed,
        "is_default": is_default(lines),
        "lines": [{"name": line.name, "phase": line.phase} for line in lines],
    }


def progress_fields(progress: Progress) -> PageData:
    """A job's progress (`Progress` in frontend/core/messages.d.ts)."""
    return {
        "fraction": round(progress.fraction, 4),
        "words": progress.words,
        "ends": progress.ends_at and int(progress.ends_at * 1000),
        "is_of_epoch": progress.is_of_epoch,
    }


def _before(job: JobResource) -> list[str]:
    """The outcomes of earlier attempts, and what the next one waits for."""
    waiting = job.attempts and job.waiting and f"it waits again: {job.waiting}"
    return [
        *(attempt.sentence for attempt in job.attempts if attempt.reason),
        *([waiting] if waiting else []),
    ]


def execution_of(job: JobResource) -> PageData:
    """When a job was created, started and ended, in milliseconds since 1970, and its exit code."""
    execution = job.execution
    ended = execution.ended if execution else None
    return {
        "created": milliseconds(job.provisioning.created),
        "started": milliseconds(execution.started) if execution else None,
        "ended": milliseconds(ended) if ended else None,
        "exit_code": execution.exit_code if execution else None,
    }


def counts_of(model: JobModel) -> dict[str, int]:
    """The node counts by state (`Counts` in frontend/core/messages.d.ts)."""
    if model.counts is None:
        return {}
    return {state.value: model.counts.of(state) for state in NodeState}
