"""A job in a cell's output: live or as a refreshed card, frozen to a card and a chart at the end."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from batchai_magics.cards.job_card import to_html, to_text
from batchai_magics.errors import BatchAIError
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.jobs.job_overview import metrics_of, overview_of
from batchai_magics.metrics import plot
from batchai_magics.metrics.charts.run_chart import is_drawable
from batchai_magics.widgets.core import display
from batchai_magics.widgets.core.cell_output import (
    SNAPSHOT_INTERVAL_S,
    CellOutput,
    LiveOutput,
    WaitFor,
)
from batchai_magics.widgets.core.display import EMPTY, Bundle, bundle_bytes, figure
from batchai_magics.widgets.core.flow_control import main_loop_scheduler
from batchai_magics.widgets.core.view_stream import Clock, RunInBackground
from batchai_magics.widgets.job.job_view import JobStream
from batchai_magics.widgets.job.page_requests import OpenJob

if TYPE_CHECKING:
    from batchai_magics.jobs.job_handle import Job


LAST_LINES = 12


def card_bundle(model: JobModel, reopen_command: str) -> Bundle | None:
    """The card as HTML and text; None before the first event."""
    if model.job is None:
        return None
    overview = overview_of(
        model,
        model.job,
        processes=max(len(model.job.ranks), model.processes),
        metrics=metrics_of(model.numbers.table, model.preferences),
        error=model.error,
        reopen_command=reopen_command,
        activity=model.activity,
        is_refreshed=True,
    )
    card = replace(overview, lines=overview.lines[-LAST_LINES - 1 :])
    return {"text/html": to_html(card), "text/plain": to_text(card)}


def chart_bundle(model: JobModel) -> Bundle:
    """The charts as a PNG with a text equivalent; an empty bundle if there is nothing to draw."""
    if not is_drawable(model.numbers.table):
        return EMPTY
    name = model.job.id.name if model.job else "the job"
    numbers = ", ".join(
        f"{label} {text}" for label, text in metrics_of(model.numbers.table, model.preferences).items()
    )
    return figure(plot(model.numbers.table, preferences=model.preferences), f"Charts of {name}: {numbers}")


LINGER_S = 1.5  # between the last message and freezing
KEPT_VIEW_BYTES = 1 << 17  # per message to a page that keeps the view
KEPT_VIEW_MESSAGES = 64  # per step


class JobCardOutput(CellOutput):
    """A refreshed card, finally with a chart. The job is followed to its end, with or without a page."""

    model: JobModel

    def __init__(self, job: Job, model: JobModel, *, clock: Clock = time.monotonic, id: str = "") -> None:
        super().__init__(job.id.key, model, clock=clock, id=id)
        self.job = job

    def open(self) -> None:
        """Shows the card and an empty output for the chart beneath the running cell."""
        super().open()
        display.show(EMPTY, self.second_id)

    def on_cell_end(self, wait_for: WaitFor) -> None:
        """Freezes the output if the job has ended."""
        try:
            has_ended = self.job.is_done
        except BatchAIError:
            return
        if has_ended and wait_for(lambda: self.model.is_over):
            self.freeze()

    def _freeze(self) -> int:
        return self._show_end(self._render(), chart_bundle(self.model))

    def _show_end(self, card: Bundle, chart: Bundle) -> int:
        """Shows what stays in the notebook; the caller holds the lock."""
        display.update(card, self.id)
        display.update(chart, self.second_id)
        self.is_frozen = True
        return bundle_bytes(card) + bundle_bytes(chart)

    def _render(self) -> Bundle:
        card = card_bundle(self.model, f"%batchai job show -n {self.job.name}")
        return card or {"text/plain": f"job {self.job.name}"}


class LiveJobOutput(LiveOutput, JobCardOutput):
    """A live view, with a snapshot beside it for the saved notebook; at the end a card and a chart.

    An open page keeps the live view after that: its log can still be searched, and its requests are answered.
    """

    view: JobStream

    def __init__(
        self,
        job: Job,
        model: JobModel,
        *,
        work: RunInBackground,
        is_kept: bool = False,
        open_job: OpenJob | None = None,
        clock: Clock = time.monotonic,
        id: str = "",
    ) -> None:
        super().__init__(job, model, clock=clock, id=id)
        view = JobStream(job, model, work=work, schedule=main_loop_scheduler(), open_job=open_job)
        self._attach(view, is_kept=is_kept)
        self._over_at: float | None = None
        self._has_card = False  # in place of the view

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""
        if not self.view.is_detached:
            return super().send_next(limit_bytes)
        # The card takes the place of the view; it is refreshed now and then until the job ends.
        if self.model.is_over:
            return self.freeze()
        if not self._has_card:
            self._has_card = True
            return self._update(chart_bundle(self.model), self.second_id) + self._update(
                self._render(), self.id
            )
        is_due = self._is_due(SNAPSHOT_INTERVAL_S, limit_bytes)
        return self._update(self._render(), self.id) if is_due else 0

    def on_cell_end(self, wait_for: WaitFor) -> None:
        """Freezes the output if the job has ended and no page shows it live, or may still do so."""
        if not self._is_hello_pending and not self.view.has_page:
            super().on_cell_end(wait_for)

    def republish(self) -> int:
        """Serves a page that keeps the view; one that says hello again also gets the frozen output."""
        if self.view.is_removed:
            self.close()
        if self.is_closed or not self.view.has_page:
            return 0
        sent = 0
        if self.view.is_hello_new:
            with self._freezing:
                sent = self._freeze()
        for _ in range(KEPT_VIEW_MESSAGES):
            size = self.view.send_next(KEPT_VIEW_BYTES)
            sent += size
            if not size:
                break
        return sent

    def _freeze(self) -> int:
        card, chart = self._snapshot(), chart_bundle(self.model)
        self.view.is_hello_new = False
        if self.is_closed or self.view.is_detached:
            return self._show_end(card, chart)
        self.view.keep()
        return self._show_end(card, chart) + self.widget.replace_outputs(card, chart)

    def _is_over(self) -> bool:
        """Whether the job has ended, the page has everything and the view is not in use."""
        if not self.model.is_over or self._is_kept:
            return False
        self._over_at = self._over_at or self._clock()
        if not self.view.has_page:
            return not self._is_hello_pending
        return (
            self.view.is_up_to_date and not self.view.is_in_use and self._clock() - self._over_at >= LINGER_S
        )
