"""A job's live view inside another view: it has no output of its own, and nothing of it is saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from batchai_magics.widgets.job.feed import Feed
from batchai_magics.widgets.job.showing import LiveShowing
from batchai_magics.widgets.job.view import Work

if TYPE_CHECKING:
    from batchai_magics.jobs.handle import Job


class OpenedJob(LiveShowing):
    """A job's live view that another view holds; it ends when the page takes it out."""

    def __init__(self, job: Job, feed: Feed, *, work: Work) -> None:
        super().__init__(job, feed, work=work, is_kept=True)

    def open(self) -> None:
        """Nothing: the page puts the view where it wants it."""

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""
        if self.view.is_gone or self.view.is_detached:
            self.close()
            return 0
        return self.view.send_next(limit_bytes)

    def settle(self, wait_for: Callable[[Callable[[], bool]], bool]) -> None:
        """Nothing: the view that holds it has a still picture of its own."""

    def republish(self) -> int:
        """Nothing is published."""
        return 0

    def _freeze(self) -> int:
        self.is_frozen = True
        return 0
