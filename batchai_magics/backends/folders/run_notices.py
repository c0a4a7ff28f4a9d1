"""Makes the notifications of a run from the files of its record. Standard library only."""

from __future__ import annotations

import json
import time
from typing import Any

from batchai_magics.backends.folders.layout import JobLayout
from batchai_magics.backends.folders.outbox import ended_id
from batchai_magics.backends.folders.run_end import RunEnd
from batchai_magics.records import notifications, record_files
from batchai_magics.records.notifications import Notification, NotificationKind
from batchai_magics.records.watch_request import WatchRequest


def watch_request(job: JobLayout) -> WatchRequest | None:
    """What the program that watches a run is to do; None without a request, or for one that is unreadable."""
    try:
        return WatchRequest.from_json((job.records / record_files.WATCH).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def ended_notification(job: JobLayout, end: RunEnd) -> Notification:
    """The notification that a run has ended."""
    outcome = end.outcome
    made = notifications.ended(
        ended_id(job.root.name),
        time=end.ended,
        is_success=outcome.is_success,
        exit_code=outcome.exit_code,
        errors=outcome.errors,
    )
    failure = notifications.first_failure(rank._asdict() for rank in outcome.ranks)
    return _of_run(job, made._replace(first_failure=failure))


def running_notification(job: JobLayout, kind: NotificationKind, number: int, reason: str) -> Notification:
    """The notification of something that happens while a run is open; `number` counts those of the kind."""
    id = f"{job.root.name}-{kind.value}-{number}"
    return _of_run(job, Notification(id, kind, "", "running", time.time(), reason))


def _of_run(job: JobLayout, notification: Notification) -> Notification:
    request = watch_request(job) or WatchRequest(job.root.name, "")
    return notification._replace(
        job=request.name,
        experiment=request.experiment,
        run=job.root.name,
        headline=_headline(job),
        link=request.link,
    )


def _headline(job: JobLayout) -> dict[str, Any]:
    try:
        headline = json.loads((job.records / record_files.HEADLINE).read_text(encoding="utf-8"))
        return {"name": headline["name"], "value": float(headline["value"]), "step": headline["step"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
