"""A job's view as a still picture: what a saved notebook keeps."""

from __future__ import annotations

from datetime import datetime, timezone

from batchai_magics.cards.job_card import JobCard, first_failure, to_html, to_text
from batchai_magics.cards.job_card_data import metrics_of
from batchai_magics.metrics import plot
from batchai_magics.metrics.charts.run_chart import is_drawable
from batchai_magics.models.execution import ERR
from batchai_magics.widgets.core.display import EMPTY, Bundle, figure
from batchai_magics.widgets.job.feed import MAIN_LOG, JobFeed

LAST_LINES = 12
FAILURE_LINES = 12


def card_of(feed: JobFeed, way_back: str) -> JobCard | None:
    """The card of what the feed knows; None while it knows nothing."""
    if feed.job is None:
        return None
    log = MAIN_LOG if feed.job.has_failed or _has_any(feed, MAIN_LOG) else ERR
    tail = feed.tails.get(log)
    return JobCard(
        job=feed.job,
        now=datetime.now(timezone.utc),
        processes=max(len(feed.job.ranks), feed.processes),
        counts=feed.counts,
        metrics=metrics_of(feed.records),
        progress=feed.progress,
        lines=tail.lines(LAST_LINES) if tail else (),
        failure_lines=_failure_lines(feed) if feed.job.has_failed else (),
        reopen_command=way_back,
        activity=feed.activity,
    )


def _has_any(feed: JobFeed, file: str) -> bool:
    return file in feed.tails and feed.tails[file].size > 0


def card_bundle(feed: JobFeed, way_back: str) -> Bundle | None:
    """The card as HTML and text; None while the feed knows nothing."""
    card = card_of(feed, way_back)
    return {"text/html": to_html(card), "text/plain": to_text(card)} if card else None


def chart_bundle(feed: JobFeed) -> Bundle:
    """The charts as a PNG with a text twin; an empty bundle if there is nothing to draw."""
    if not is_drawable(feed.records):
        return EMPTY
    name = feed.job.id.name if feed.job else "the job"
    numbers = ", ".join(f"{label} {text}" for label, text in metrics_of(feed.records).items())
    return figure(plot(feed.records), f"Charts of {name}: {numbers}")


def _failure_lines(feed: JobFeed) -> tuple[str, ...]:
    """The last words of the process that failed first, else of stderr."""
    ranks = feed.job.ranks if feed.job else ()
    failed = first_failure(feed.job) if feed.job else None
    first = failed.rank if failed else None
    tail = feed.tails.get(ERR if ranks else _preparation_log(feed))
    if tail is None:
        return ()
    return (tail.lines(FAILURE_LINES, rank=first) if first is not None else ()) or tail.lines(FAILURE_LINES)


def _preparation_log(feed: JobFeed) -> str:
    """The log that says why no process was started; stderr if no preparation wrote anything."""
    logs = [file for file, tail in feed.tails.items() if "job_prep" in file and tail.end]
    return min(logs, key=lambda file: not file.startswith("stderr"), default=ERR)
