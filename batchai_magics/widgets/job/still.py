"""A job's view as a still picture: what a saved notebook keeps."""

from __future__ import annotations

import base64
import html
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from batchai_magics.cards.gathering import numbers_of
from batchai_magics.cards.job import Card, first_failure, to_html, to_text
from batchai_magics.metrics import figure_png, plot
from batchai_magics.metrics.charts.run import is_drawable
from batchai_magics.models.job import ERR
from batchai_magics.models.states import ExecutionState
from batchai_magics.widgets.core.display import Bundle
from batchai_magics.widgets.job.feed import MAIN_LOG, Feed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LAST_LINES = 12
FAILURE_LINES = 12
MAX_PNG_BYTES = 120_000
EMPTY: Bundle = {"text/html": "", "text/plain": ""}


def card_of(feed: Feed, way_back: str) -> Card | None:
    """The card of what the feed knows; None while it knows nothing."""
    if feed.job is None:
        return None
    tail = feed.tails.get(MAIN_LOG)
    return Card(
        job=feed.job,
        now=datetime.now(timezone.utc),
        processes=max(len(feed.job.ranks), feed.processes),
        counts=feed.counts,
        numbers=numbers_of(feed.records),
        lines=tail.lines(LAST_LINES) if tail else (),
        failure_lines=_failure_lines(feed) if feed.job.state is ExecutionState.FAILED else (),
        way_back=way_back,
    )


def card_bundle(card: Card, *, snapshot_of: str = "") -> Bundle:
    """The card as HTML and text. With `snapshot_of`, a live view of that id hides it while it is there."""
    body = to_html(card)
    return {"text/html": twin_of(snapshot_of, body) if snapshot_of else body, "text/plain": to_text(card)}


def twin_of(view_id: str, body: str) -> str:
    """HTML that a live view of that id hides, and that hides what is left of the view where it cannot live.

    A notebook saved while the view was live names a model that is no more when it is opened again. There
    JupyterLab writes an error, without any element: what stands before the twin and has none is not shown.
    """
    mark = f'data-batchai-snapshot="{html.escape(view_id)}"'
    lost = f".jp-OutputArea-child:has(+ .jp-OutputArea-child [{mark}]):not(:has(.jp-OutputArea-output *))"
    return f"<div {mark}><style>{lost} {{ display: none; }}</style>{body}</div>"


def chart_bundle(feed: Feed) -> Bundle:
    """The charts as a PNG with a text twin; an empty bundle if there is nothing to draw."""
    if not is_drawable(feed.records):
        return EMPTY
    name = feed.job.id.name if feed.job else "the job"
    numbers = ", ".join(f"{label} {text}" for label, text in numbers_of(feed.records).items())
    return picture_of(plot(feed.records), f"Charts of {name}: {numbers}")


def picture_of(ax: Axes, text: str) -> Bundle:
    """The figure that an Axes belongs to, as a PNG of bounded size with a text twin."""
    png = figure_png(ax)
    if len(png) > MAX_PNG_BYTES:
        png = figure_png(ax, dpi=60)
    return {"image/png": base64.b64encode(png).decode(), "text/plain": text}


def _failure_lines(feed: Feed) -> tuple[str, ...]:
    """The last words of the process that failed first, else of stderr."""
    ranks = feed.job.ranks if feed.job else ()
    failed = first_failure(feed.job) if feed.job else None
    first = failed.rank if failed else None
    tail = feed.tails.get(ERR if ranks else _preparation_log(feed))
    if tail is None:
        return ()
    return (tail.lines(FAILURE_LINES, rank=first) if first is not None else ()) or tail.lines(FAILURE_LINES)


def _preparation_log(feed: Feed) -> str:
    """The log that says why no process was started; stderr if no preparation wrote anything."""
    logs = [file for file, tail in feed.tails.items() if "job_prep" in file and tail.end]
    return min(logs, key=lambda file: not file.startswith("stderr"), default=ERR)
