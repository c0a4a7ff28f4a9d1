"""Collects the contents of a job's card from its handle."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timezone

from batchai_magics.backends.base import FileRef
from batchai_magics.cards.job_card import JobCard, first_failure, to_html
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_logs import last_lines, progress_of
from batchai_magics.metrics import Record, summarize
from batchai_magics.models.job_execution import ERR, OUT

LAST_LINES = 20
FAILURE_LINES = 12
MOST_RATES = 8


def job_html(job: Job) -> str:
    """The job as an HTML card."""
    return to_html(job_card(job))


def job_card(job: Job) -> JobCard:
    """The card of a job: state, metrics, first failure, last log lines."""
    shown = job.show()
    first = first_failure(shown)
    error_log = FileRef(job.id, ERR)
    return JobCard(
        job=shown,
        now=datetime.now(timezone.utc),
        processes=len(shown.ranks),
        metrics=metrics_of(job.records()),
        progress=progress_of(job.backend, shown),
        lines=last_lines(job.backend, FileRef(job.id, OUT), LAST_LINES),
        failure_lines=last_lines(job.backend, error_log, FAILURE_LINES, rank=first.rank if first else None)
        if shown.has_failed
        else (),
    )


def metrics_of(records: Collection[Record]) -> dict[str, str]:
    """The metrics of a log by label; empty if there are none."""
    if not records:
        return {}
    summary = summarize(records)
    texts = {
        "images/sec": _unless_zero(summary.total_images_per_sec or summary.images_per_sec, ",.1f"),
        "by rank": _by_rank(summary.rates),
        "steps": _unless_zero(summary.steps, ","),
        "last loss": f"{summary.last_loss:.3f}" if summary.last_loss is not None else "",
        "model": summary.model or "",
        "batch size": str(summary.batch_size_global or ""),
    }
    return {label: text for label, text in texts.items() if text}


def _unless_zero(number: float | None, form: str) -> str:
    return format(number, form) if number else ""


def _by_rank(rates: Mapping[int, float] | None) -> str:
    if not rates or len(rates) < 2:
        return ""
    if len(rates) > MOST_RATES:
        return f"{min(rates.values()):,.1f} to {max(rates.values()):,.1f}"
    return ", ".join(f"{rank}: {rate:,.1f}" for rank, rate in rates.items())
