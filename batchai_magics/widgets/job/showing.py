"""A job shown beneath a cell: live or as a card that is refreshed, and frozen at the end."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from batchai_magics.errors import BatchAIError
from batchai_magics.widgets.core import display
from batchai_magics.widgets.core.display import Bundle
from batchai_magics.widgets.job import still
from batchai_magics.widgets.job.batch import OVERHEAD_BYTES
from batchai_magics.widgets.job.feed import Feed
from batchai_magics.widgets.job.view import JobView, Work

if TYPE_CHECKING:
    from batchai_magics.jobs.handle import Job

LINGER_S = 1.5  # from the last byte to the still picture
SERVED_BYTES = 1 << 17  # of one message to a page that keeps the view
SERVED_MESSAGES = 64  # at once
SNAPSHOT_S = 30.0  # between two snapshots beside a live view
REFRESH_S = 2.0  # between two cards where no page shows a live view

Clock = Callable[[], float]


class Showing:
    """A card that is refreshed, then stays, with a chart. Only the publisher's thread calls `send_next`."""

    def __init__(self, job: Job, feed: Feed, *, clock: Clock = time.monotonic) -> None:
        self.job = job
        self.feed = feed
        self.id = uuid.uuid4().hex
        self.second_id = f"{self.id}-second"
        self._clock = clock
        self._freezing = threading.Lock()
        self._shown_at = clock()
        self._shown_version = feed.version
        self._hidden_by = ""  # the id of the live view in whose place the picture is
        self.is_frozen = False
        self.is_closed = False

    @property
    def key(self) -> str:
        """The job's id, in lower case."""
        return self.job.id.key

    @property
    def known(self) -> Feed:
        """What the job's views share."""
        return self.feed

    @property
    def is_gone(self) -> bool:
        """Whether the page has taken the view out."""
        return False

    @property
    def is_asleep(self) -> bool:
        """Whether nobody looks; a job is followed to its end all the same, for the card."""
        return False

    @property
    def way_back(self) -> str:
        """The command that shows the job again."""
        return f"%batchai job show -n {self.job.name}"

    @property
    def is_watched(self) -> bool:
        """Whether a page has answered, so that somebody may see the view live."""
        return False

    def open(self) -> None:
        """Shows the job beneath the running cell."""
        display.show(self._card(), self.id)
        display.show(still.EMPTY, self.second_id)

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""
        if self.feed.is_over:
            return self.freeze()
        return self._refresh_if_due(self.id, REFRESH_S, limit_bytes)

    def settle(self, wait_for: Callable[[Callable[[], bool]], bool]) -> None:
        """Becomes a still picture if the job has ended and no page shows it live."""
        if not self.is_watched and _has_ended(self.job) and wait_for(lambda: self.feed.is_over):
            self.freeze()

    def freeze(self) -> int:
        """Makes the view a still picture, once, from any thread. Returns what it took in bytes."""
        with self._freezing:
            return 0 if self.is_frozen else self._freeze()

    def republish(self) -> int:
        """Publishes the still picture again if a page missed it. Returns what it took in bytes."""
        return 0

    def close(self) -> None:
        """Ends the view as it stands."""
        self.freeze()
        self.is_closed = True

    def _freeze(self) -> int:
        card, chart = self._card(snapshot_of=self._hidden_by), still.chart_bundle(self.feed)
        self._announce()
        display.update(card, self.id)
        display.update(chart, self.second_id)
        self.is_frozen = True
        return _size(card) + _size(chart)

    def _announce(self) -> None:
        """The output is about to become a still picture."""

    def _card(self, *, snapshot_of: str = "") -> Bundle:
        card = still.card_of(self.feed, self.way_back)
        if card is None:
            return {"text/plain": f"job {self.job.name}"}
        return still.card_bundle(card, snapshot_of=snapshot_of)

    def _refresh_if_due(
        self, display_id: str, interval_s: float, limit_bytes: int, *, snapshot_of: str = ""
    ) -> int:
        now = self._clock()
        is_new = self._shown_version != self.feed.version
        if limit_bytes < OVERHEAD_BYTES or not (is_new or now - self._shown_at >= interval_s):
            return 0
        bundle = self._card(snapshot_of=snapshot_of)
        self._shown_at, self._shown_version = now, self.feed.version
        display.update(bundle, display_id)
        return _size(bundle)


class LiveShowing(Showing):
    """A live view, with a snapshot beside it for the saved notebook; at the end a card and a chart.

    These are what the notebook keeps. A page that shows the view live keeps it too, until it is closed: there
    the log can still be searched, and what it asks is still answered.
    """

    def __init__(
        self, job: Job, feed: Feed, *, work: Work, is_kept: bool = False, clock: Clock = time.monotonic
    ) -> None:
        super().__init__(job, feed, clock=clock)
        self.view = JobView(job, feed, view_id=self.id, work=work)
        self._hidden_by = self.id
        self._is_kept = is_kept  # stays live when the job has ended
        self._hello_by = display.hello_by(clock())
        self._over_at: float | None = None

    @property
    def _is_awaited(self) -> bool:
        """Whether the page that asked for the view may still say hello."""
        return self._clock() < self._hello_by

    @property
    def is_watched(self) -> bool:
        """Whether a page has answered, so that somebody may see the view live."""
        return self.view.is_heard

    @property
    def is_gone(self) -> bool:
        """Whether the page has taken the view out."""
        return self.view.is_gone

    def open(self) -> None:
        """Shows the view, and the snapshot that it hides, beneath the running cell."""
        bundle, _ = self.view._repr_mimebundle_() or ({}, {})
        display.show({**bundle, "text/plain": f"job {self.job.name}"}, self.id)
        display.show(self._card(snapshot_of=self.id), self.second_id)

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""
        if self._is_at_rest():
            return self.freeze()
        sent = self.view.send_next(limit_bytes)
        if sent or self.feed.is_over:
            return sent
        interval_s = SNAPSHOT_S if self.is_watched else REFRESH_S
        return self._refresh_if_due(self.second_id, interval_s, limit_bytes, snapshot_of=self.id)

    def settle(self, wait_for: Callable[[Callable[[], bool]], bool]) -> None:
        """Becomes a still picture if the job has ended and no page shows it live.

        A page may need a while: it has HELLO_S, however many cells end meanwhile.
        """
        if not self._is_awaited:
            super().settle(wait_for)

    def republish(self) -> int:
        """Serves a page that keeps the view; one that says hello anew gets the still picture, too."""
        if self.view.is_gone:
            self.close()
        if self.is_closed or not self.view.is_heard:
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

    def close(self) -> None:
        """Ends the view as it stands, and its model."""
        self.is_closed = True
        super().close()
        self.view.layout.close()  # a model of its own, which the view's end leaves
        self.view.close()

    def _is_at_rest(self) -> bool:
        """Whether nothing will change any more and nobody looks closely."""
        if self.view.is_detached:
            return True
        if not self.feed.is_over or self._is_kept:
            return False
        self._over_at = self._over_at or self._clock()
        if not self.view.is_heard:
            return not self._is_awaited
        return self.view.has_all and not self.view.is_held and self._clock() - self._over_at >= LINGER_S

    def _announce(self) -> None:
        self.view.is_greeted = False
        if not self.is_closed and not self.view.is_detached:
            self.view.keep()


def _size(bundle: Bundle) -> int:
    return OVERHEAD_BYTES + sum(map(len, bundle.values()))


def _has_ended(job: Job) -> bool:
    try:
        return job.is_done
    except BatchAIError:
        return False
