"""The live views: anywidget models here, plain ES modules in `frontend/`.

`show` displays a job beneath the running cell, `show_dashboard` a cluster or a list of jobs,
`show_comparison` several runs and `show_sweep` a sweep: as a live view, as refreshed HTML, or as plain text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from batchai_magics.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from batchai_magics.commands.output.command_result import LiveResult
    from batchai_magics.jobs.job_handle import Job
    from batchai_magics.jobs.job_model import JobModel
    from batchai_magics.jobs.sweeps.sweep_handle import Sweep
    from batchai_magics.metrics import Comparison, Scaling
    from batchai_magics.widgets.core.publisher import Publisher
    from batchai_magics.widgets.job.job_output import LiveJobOutput

TIERS = ("auto", "widget", "html", "text")

__all__ = [
    "TIERS",
    "close_all",
    "freeze_ended",
    "is_text",
    "show",
    "show_comparison",
    "show_dashboard",
    "show_sweep",
]


def show(job: Job, *, ui: str = "auto", names: Sequence[str] = ()) -> None:
    """Shows a job beneath the running cell and keeps it up to date until it has ended; returns immediately.

    Args:
        job: The job to show.
        names: The variables that hold the job, and hold the next run once it is run again from its view.
        ui: `widget` (a live view, also after the job has ended), `html` (a refreshed card), `text` (a card
            of the current state) or `auto`: a live view for the requesting page, and a card once the job has
            ended; text where only text can be shown.

    Raises:
        UsageError: If `ui` is anything else.
    """
    from batchai_magics.widgets.core import display

    if is_text(ui):
        from dataclasses import replace

        from batchai_magics.cards.job_card import to_text
        from batchai_magics.jobs.job_handle import processes_of
        from batchai_magics.jobs.job_overview import job_overview

        reopen_command, card = f"%batchai job show -n {job.name}", job_overview(job)
        card = replace(card, processes=processes_of(job.backend, card.job), reopen_command=reopen_command)
        display.show({"text/plain": to_text(card)}, "")
        return
    from batchai_magics.widgets.job.job_output import JobCardOutput

    model = _job_model(job)
    if ui == "html" or (ui == "auto" and job.is_done and not display.is_requested_by_page()):
        output = JobCardOutput(job, model)
    else:
        output = _live_output(job, model, names, is_kept=ui == "widget")
    output.open()
    _publisher().add(output)


def show_dashboard(subject: LiveResult, *, ui: str = "auto") -> None:
    """Shows a cluster (by its id) or the jobs of an experiment (by its id); `ui` as for a job.

    It is kept up to date while a page shows it, and frozen when nothing has changed for a long time.
    """
    from batchai_magics.widgets.dashboards import dashboard_output

    if is_text(ui):
        dashboard_output.show_text(subject)
    else:
        dashboard_output.show(subject, _publisher(), _embed_jobs, ui=ui)


def is_text(ui: str) -> bool:
    """Whether `ui` means plain text here. Raises UsageError for an unknown value."""
    if ui not in TIERS:
        hint = did_you_mean(ui, TIERS) or f"one of {TIERS}"
        raise UsageError(f"ui: {ui!r} is not a valid value", hint=hint)
    from batchai_magics.widgets.core import display

    return ui == "text" or (ui == "auto" and not display.has_frontend())


def show_comparison(value: Comparison | Scaling, *, ui: str = "auto") -> None:
    """Shows a comparison of runs as a live view, or as a table and a figure; `ui` as for a job.

    While some of their jobs run, it follows these until they have ended. As text it is the table, replaced by
    the final one where outputs can be updated.
    """
    from batchai_magics.widgets.core import display

    tier = "text" if is_text(ui) else ui
    is_shown_live = tier == "widget" or (tier == "auto" and display.is_requested_by_page())
    if (value.is_running or is_shown_live) and display.has_frontend():
        from batchai_magics.widgets.comparison import comparison_output as comparisons

        comparisons.show(value, _publisher(), ui=tier)
    else:
        from batchai_magics.widgets.comparison.comparison_output import show_static

        show_static(value, ui=tier)


def show_sweep(sweep: Sweep, *, ui: str = "auto") -> None:
    """Shows a sweep as a live view, or as a table and a figure; `ui` as for a job.

    While it runs, showing it takes its steps. At the end the table of the best trials and the figure stay.
    """
    from batchai_magics.widgets.comparison import sweep_view

    tier = "text" if is_text(ui) else ui
    sweep_view.show(sweep, _publisher(), _embed_jobs, ui=tier)


def freeze_ended(job: Job | None = None, *, timeout_s: float = 20.0) -> None:
    """Freezes the outputs of ended jobs that no page shows live; must be called in the main thread.

    Without a page (nbclient, papermill), outputs are saved only while a cell runs. Called at the end of each
    cell, this puts the card into the saved notebook. Returns immediately if there is nothing to do.
    """
    if not _publisher.cache_info().currsize:
        return
    publisher = _publisher()
    for output in publisher.outputs(job.id.key if job else None):
        output.on_cell_end(lambda is_met: publisher.wait_for(is_met, timeout_s))


def close_all() -> None:
    """Freezes and closes all outputs, and ends the publisher's threads."""
    if _publisher.cache_info().currsize:
        _publisher().close()
        _publisher.cache_clear()


@cache
def _publisher() -> Publisher:
    """The publisher of this kernel."""
    from batchai_magics.widgets.core.publisher import Publisher

    return Publisher().start()


def _job_model(job: Job) -> JobModel:
    """The model of a job that all its views share."""
    from batchai_magics.widgets.job.job_view import follow_job

    return _publisher().model(job.id.key, lambda: follow_job(job))


def _live_output(
    job: Job, model: JobModel, names: Sequence[str], *, is_kept: bool, id: str = ""
) -> LiveJobOutput:
    """The live output of a job; if the job is run again, the new run replaces it in the output."""
    from batchai_magics.widgets.core import display
    from batchai_magics.widgets.job.job_output import LiveJobOutput

    publisher = _publisher()

    def continue_with(next_run: Job) -> str:
        following = _live_output(next_run, _job_model(next_run), names, is_kept=is_kept, id=output.id)
        following.replace(output)
        publisher.add(following)
        display.rebind(names, job, next_run)
        return ""

    work = publisher.run_in_background
    output = LiveJobOutput(job, model, work=work, is_kept=is_kept, open_job=continue_with, id=id)
    return output


def _embed_job(job: Job) -> str:
    """Creates a job's live view for embedding in another one; returns its widget's id."""
    from batchai_magics.widgets.core.cell_output import EmbeddedOutput, KernelWidget
    from batchai_magics.widgets.core.flow_control import main_loop_scheduler
    from batchai_magics.widgets.job.job_view import JobStream

    publisher, model = _publisher(), _job_model(job)
    work, schedule = publisher.run_in_background, main_loop_scheduler()
    view = JobStream(job, model, work=work, schedule=schedule, open_job=_embed_job)
    widget = KernelWidget(view)
    publisher.add(EmbeddedOutput(job.id.key, model, view))
    return str(widget.model_id)


def _embed_jobs(*jobs: Job) -> str:
    """Creates a job's live view, or a comparison of several, for embedding; returns its widget's id."""
    if len(jobs) == 1:
        return _embed_job(*jobs)
    from batchai_magics.jobs.metric_settings import metric_preferences
    from batchai_magics.metrics import compare
    from batchai_magics.widgets.comparison import comparison_output

    return comparison_output.embed(compare(jobs, preferences=metric_preferences()), _publisher())
