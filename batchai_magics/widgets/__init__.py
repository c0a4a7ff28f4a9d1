"""The live views: anywidget models here, plain ES modules in `frontend/`.

`show` displays a job beneath the running cell, `show_dashboard` a cluster or a list of jobs, and
`show_comparison` several runs: as a live view, as refreshed HTML, or as plain text.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from batchai_magics.errors import BatchAIError, UsageError, did_you_mean

if TYPE_CHECKING:
    from batchai_magics.jobs.handle import Job
    from batchai_magics.metrics import Comparison, Scaling
    from batchai_magics.widgets.core.feed import Source
    from batchai_magics.widgets.core.publisher import Publisher
    from batchai_magics.widgets.dashboards.dashboard_output import Subject
    from batchai_magics.widgets.job.feed import JobFeed

TIERS = ("auto", "widget", "html", "text")

__all__ = ["TIERS", "close_all", "freeze_ended", "is_text", "show", "show_comparison", "show_dashboard"]


def show(job: Job, *, ui: str = "auto") -> None:
    """Shows a job beneath the running cell and keeps it up to date until it has ended; returns at once.

    `ui` is `widget` (live, and kept live when the job has ended), `html` (a card that is refreshed), `text`
    (a card as it stands now) or `auto`: a live view for the page that asked, and a card in the notebook as
    soon as the job has ended; text where nothing can be shown but text. Raises UsageError for any other word.
    """
    if is_text(ui):
        _show_text(job)
        return
    from batchai_magics.widgets.core import display
    from batchai_magics.widgets.job.showing import JobCard, LiveJob

    feed = _publisher().feed(job.id.key, lambda: _open(job))
    if ui == "html" or (ui == "auto" and job.is_done and not display.is_asked_by_page()):
        output = JobCard(job, feed)
    else:
        work = _publisher().run_in_background
        output = LiveJob(job, feed, work=work, is_kept=ui == "widget", open_job=_open_inside)
    output.open()
    _publisher().add(output)


def show_dashboard(subject: Subject, *, ui: str = "auto") -> None:
    """Shows a cluster (by its id) or the jobs of an experiment (by its id); `ui` as for a job.

    It is kept up to date while a page shows it, and frozen when nothing has changed for a long time.
    """
    from batchai_magics.widgets.dashboards import dashboard_output

    if is_text(ui):
        dashboard_output.show_text(subject)
    else:
        dashboard_output.show(subject, _publisher(), _open_inside, ui=ui)


def is_text(ui: str) -> bool:
    """Whether `ui` comes to plain text here. Raises UsageError for a word that is no tier."""
    if ui not in TIERS:
        hint = did_you_mean(ui, TIERS) or f"one of {TIERS}"
        raise UsageError(f"ui: {ui!r} is no way to show anything", hint=hint)
    from batchai_magics.widgets.core import display

    return ui == "text" or (ui == "auto" and not display.has_frontend())


def show_comparison(value: Comparison | Scaling, *, ui: str = "auto") -> None:
    """Shows runs side by side: a table and a figure; `ui` as for a job.

    While jobs among them run it follows these to their ends, live, and becomes table and figure then. As text
    it is the table, replaced by the final one where an output can be replaced.
    """
    from batchai_magics.widgets.core import display

    tier = "text" if is_text(ui) else ui
    if value.is_running and display.has_frontend():
        from batchai_magics.widgets.comparison import comparison_output as comparisons

        comparisons.show(value, _publisher(), ui=tier)
    else:
        from batchai_magics.widgets.comparison.comparison_output import show_static

        show_static(value, ui=tier)


def freeze_ended(job: Job | None = None, *, timeout_s: float = 20.0) -> None:
    """Freezes the views of ended jobs that no page shows live; to be called in the main thread.

    Without a page (nbclient, papermill) an output counts only while a cell runs: called at the end of each
    cell, this gets the card into the saved notebook. Returns at once if there is nothing to do.
    """
    if not _publisher.cache_info().currsize:
        return
    publisher = _publisher()
    for output in publisher.outputs(job.id.key if job else None):
        output.on_cell_end(lambda is_met: publisher.wait_for(is_met, timeout_s))


def close_all() -> None:
    """Ends every view as it stands, and the threads behind them."""
    if _publisher.cache_info().currsize:
        _publisher().close()
        _publisher.cache_clear()


@cache
def _publisher() -> Publisher:
    """The publisher of this kernel."""
    from batchai_magics.widgets.core.publisher import Publisher

    return Publisher().start()


def _open(job: Job) -> tuple[Source, JobFeed]:
    """A job's events from the start, and a feed that knows its state as it is now."""
    from batchai_magics.follow import Follower, StateChanged
    from batchai_magics.widgets.job.feed import JobFeed

    feed = JobFeed(processes=_process_count(job))
    feed.take(StateChanged(job.show()))
    return Follower(job.backend, job.id, patterns=job.patterns, with_use=True), feed


def _open_inside(job: Job) -> str:
    """A job's live view inside another one: the id of its model."""
    from batchai_magics.widgets.job.showing import InnerJob

    publisher = _publisher()
    feed = publisher.feed(job.id.key, lambda: _open(job))
    inner = InnerJob(job, feed, work=publisher.run_in_background, open_job=_open_inside)
    publisher.add(inner)
    return str(inner.view.model_id)


def _show_text(job: Job) -> None:
    from dataclasses import replace

    from batchai_magics.cards.job_card import to_text
    from batchai_magics.cards.job_card_data import job_card
    from batchai_magics.widgets.core import display

    way_back = f"%batchai job show -n {job.name}"
    card = replace(job_card(job), processes=_process_count(job), reopen_command=way_back)
    display.show({"text/plain": to_text(card)}, "")


def _process_count(job: Job) -> int:
    """How many processes the job has; 0 where its cluster does not tell."""
    from batchai_magics.launch.description import Description
    from batchai_magics.launch.toolkits import process_count
    from batchai_magics.models import vm_sizes
    from batchai_magics.models.ids import ResourceId
    from batchai_magics.models.resources import Cluster

    spec = job.show().spec
    try:
        cluster = job.backend.show(ResourceId.parse(spec.cluster.id))
        gpus = vm_sizes.lookup(cluster.spec.vm_size).gpus if isinstance(cluster, Cluster) else 0
    except BatchAIError:
        gpus = 0
    return process_count(Description.of(spec), gpus)
