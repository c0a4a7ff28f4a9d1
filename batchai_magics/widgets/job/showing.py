"""A job shown beneath a cell: live or as a card that is refreshed, and frozen at the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from batchai_magics.errors import BatchAIError
from batchai_magics.widgets.core import display
from batchai_magics.widgets.core.cell_output import (
    REFRESH_INTERVAL_S,
    CellOutput,
    Clock,
    LiveOutput,
    WaitFor,
    bundle_bytes,
)
from batchai_magics.widgets.core.display import EMPTY, Bundle
from batchai_magics.widgets.core.flow_control import OVERHEAD_BYTES
from batchai_magics.widgets.job.answers import OpenJob
from batchai_magics.widgets.job.feed import JobFeed
from batchai_magics.widgets.job.picture import card_bundle, chart_bundle
from batchai_magics.widgets.job.view import JobView, Work

if TYPE_CHECKING:
    from batchai_magics.jobs.handle import Job

LINGER_S = 1.5  # from the last byte to the still picture
SERVED_BYTES = 1 << 17  # of one message to a page that keeps the view
SERVED_MESSAGES = 64  # at once


class JobCard(CellOutput):
    """A card that is refreshed, then stays, with a chart. A job is followed to its end whoever looks."""

    feed: JobFeed

    def __init__(self, job: Job, feed: JobFeed, *, clock: Clock = time.monotonic) -> None:
        super().__init__(job.id.key, feed, clock=clock)
        self.job = job

    def open(self) -> None:
        """Shows the job beneath the running cell."""
        display.show(self._render(), self.id)
        display.show(EMPTY, self.second_id)

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""
        if self.feed.is_over:
            return self.freeze()
        return self._update(self._render(), self.id) if self._is_due(REFRESH_INTERVAL_S, limit_bytes) else 0

    def on_cell_end(self, wait_for: WaitFor) -> None:
        """Becomes a still picture if the job has ended."""
        if _has_ended(self.job) and wait_for(lambda: self.feed.is_over):
            self.freeze()

    def _freeze(self) -> int:
        card, chart = self._render_final(), chart_bundle(self.feed)
        self._announce()
        display.update(card, self.id)
        display.update(chart, self.second_id)
        self.is_frozen = True
        return bundle_bytes(card) + bundle_bytes(chart)

    def _announce(self) -> None:
        """The output is about to become a still picture."""

    def _render(self) -> Bundle:
        card = card_bundle(self.feed, f"%batchai job show -n {self.job.name}")
        return card or {"text/plain": f"job {self.job.name}"}

    def _is_due(self, interval_s: float, limit_bytes: int) -> bool:
        """Whether a newer picture is due: of another state at once, of more numbers from time to time."""
        is_new = self._updated_version != self.feed.version
        is_late = not self.feed.is_over and self._clock() - self._updated_at >= interval_s
        return limit_bytes >= OVERHEAD_BYTES and (is_new or is_late)


class LiveJob(LiveOutput, JobCard):
    """A live view, with a snapshot beside it for the saved notebook; at the end a card and a chart.

    These are what the notebook keeps. A page that shows the view live keeps it too, until it is closed: there
    the log can still be searched, and what it asks is still answered.
    """

    view: JobView

    def __init__(
        self,
        job: Job,
        feed: JobFeed,
        *,
        work: Work,
        is_kept: bool = False,
        open_job: OpenJob | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        super().__init__(job, feed, clock=clock)
        view = JobView(job, feed, view_id=self.id, work=work, open_job=open_job)
        self._attach(view, is_kept=is_kept)
        self._over_at: float | None = None

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""
        if self._is_at_rest():
            return self.freeze()
        sent = self.view.send_next(limit_bytes)
        if sent or not self._is_due(self._snapshot_interval_s, limit_bytes):
            return sent
        return self._update(self._snapshot(), self.second_id)

    def on_cell_end(self, wait_for: WaitFor) -> None:
        """Becomes a still picture if the job has ended and no page shows it live.

        A page may need a while: it has HELLO_S, however many cells end meanwhile.
        """
        if not self._is_hello_pending and not self.view.has_page:
            super().on_cell_end(wait_for)

    def republish(self) -> int:
        """Serves a page that keeps the view; one that says hello anew gets the still picture, too."""
        if self.view.is_removed:
            self.close()
        if self.is_closed or not self.view.has_page:
            return 0
        sent = 0
        if self.view.is_greeted:
            with self._freezing:
                sent = self._freeze()
        for _ in range(SERVED_MESSAGES):
            size = self.view.send_next(SERVED_BYTES)
            sent += size
            if not size:
                break
        return sent

    def _announce(self) -> None:
        self.view.is_greeted = False
        if not self.is_closed and not self.view.is_detached:
            self.view.keep()

    def _render_final(self) -> Bundle:
        return self._snapshot()

    def _title(self) -> str:
        return f"job {self.job.name}"

    def _is_at_rest(self) -> bool:
        """Whether nothing will change any more and nobody looks closely."""
        if self.view.is_detached:
            return True
        if not self.feed.is_over or self._is_kept:
            return False
        self._over_at = self._over_at or self._clock()
        if not self.view.has_page:
            return not self._is_hello_pending
        return self.view.has_all and not self.view.is_in_use and self._clock() - self._over_at >= LINGER_S


class InnerJob(LiveJob):
    """A job's live view inside another one, without an output of its own; the page ends it."""

    def __init__(self, job: Job, feed: JobFeed, *, work: Work, open_job: OpenJob | None = None) -> None:
        super().__init__(job, feed, work=work, is_kept=True, open_job=open_job)

    def open(self) -> None:
        """Nothing: the page puts the view where it wants it."""

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""
        if self.view.is_removed or self.view.is_detached:
            self.close()
            return 0
        return self.view.send_next(limit_bytes)

    def on_cell_end(self, wait_for: WaitFor) -> None:
        """Nothing: the view that holds it has a still picture of its own."""

    def republish(self) -> int:
        """Nothing is published."""
        return 0

    def _freeze(self) -> int:
        self.is_frozen = True
        return 0


def _has_ended(job: Job) -> bool:
    try:
        return job.is_done
    except BatchAIError:
        return False
