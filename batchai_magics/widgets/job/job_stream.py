"""What one view of a job is sent, and its page's messages; a kernel, HTTP or a recording carries them."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from batchai_magics.follow import MAX_DELAY_S, Event, Follower, StateChanged
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.jobs.metric_settings import metric_preferences
from batchai_magics.jobs.watch_records import stalled_s
from batchai_magics.widgets.core.cell_output import RunInBackground
from batchai_magics.widgets.core.flow_control import OVERHEAD_BYTES, AckWindow, Schedule
from batchai_magics.widgets.core.pages import Pages
from batchai_magics.widgets.core.polled_model import PageData
from batchai_magics.widgets.job.job_header import counts_of, facts_of
from batchai_magics.widgets.job.message_batch import Batch, Cursor
from batchai_magics.widgets.job.page_requests import OpenJob, RequestHandler, text_answer

if TYPE_CHECKING:
    from batchai_magics.jobs.job_handle import Job

PAGE_TIMEOUT_S = 60.0  # a page sends a heartbeat every 20 s


class JobStream:
    """The publisher's thread calls `send_next`; messages from the page arrive in any thread at `receive`.

    A subclass carries the messages and the state. `work` schedules a function on a thread that may block; no
    method here blocks.
    """

    is_unwatched = False  # its job is followed with or without a page

    def __init__(
        self,
        job: Job,
        model: JobModel,
        *,
        work: RunInBackground,
        schedule: Schedule,
        open_job: OpenJob | None = None,
        is_read_only: bool = False,
    ) -> None:
        self._requests = RequestHandler(job, open_job, model=model, is_read_only=is_read_only)
        self._rights = {
            "can_again": open_job is not None and not is_read_only,
            "can_profile": job.backend.node_commands is not None and not is_read_only,
            "is_read_only": is_read_only,
        }
        self._ack_window = AckWindow(schedule)
        self._model = model
        self._work = work
        self._cursor = Cursor()
        self._lock = threading.Lock()
        self._replies: deque[Batch] = deque()
        self._hello: PageData | None = None
        self._version = model.version
        self._last_seen_at = 0.0
        self._pages = Pages(time.monotonic)
        self._is_in_use = False
        self.has_page = False  # a page has said hello
        self.is_hello_new = False  # and the hello has not been handled yet
        self.is_detached = False
        self.is_removed = False  # the page has removed the view

    @property
    def is_gone(self) -> bool:
        """Whether nothing more is to be sent."""
        return self.is_removed or self.is_detached

    @abstractmethod
    def transmit(self, message: Batch) -> None:
        """Sends a message to the page."""

    @abstractmethod
    def publish_state(self, state: PageData) -> None:
        """Replaces the state that the page has, by name."""

    @property
    def state(self) -> PageData:
        """The small state: what the header and the tabs show."""
        return {
            "facts": self._facts(),
            "counts": counts_of(self._model),
            "history": list(self._model.history),
            "files": self._model.files,
        }

    @property
    def is_in_use(self) -> bool:
        """Whether the pointer or focus is in the view, on a page that still answers."""
        return self._is_in_use and time.monotonic() - self._last_seen_at < PAGE_TIMEOUT_S

    @property
    def is_up_to_date(self) -> bool:
        """Whether the page has been sent everything, or no longer acknowledges messages."""
        with self._lock:
            is_waiting = bool(self._replies) or self._hello is not None
        if is_waiting or self._version != self._model.version:
            return False
        return self._cursor.is_up_to_date(self._model) or not self._ack_window.is_open

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if any, of about `limit_bytes` at most; returns its size in bytes."""
        if self._version != self._model.version:
            self._version = self._model.version
            self.publish_state(self.state)
            return OVERHEAD_BYTES
        if not self.has_page:
            return 0
        with self._lock:
            hello, self._hello = self._hello, None
            reply = self._replies.popleft() if self._replies else None
        if hello:
            self._rewind(hello)
        if reply is None and self._ack_window.is_open:
            reply = self._cursor.next_batch(self._model, limit_bytes)
        if reply is None:
            return 0
        self.transmit(reply)
        self._ack_window.sent(self._cursor.seq)
        return reply.size_bytes

    def keep(self) -> None:
        """Tells the page to keep the view although its output is about to be frozen."""
        self.transmit(Batch({"kind": "keep"}))

    def receive(self, content: PageData) -> None:
        """Dispatches a message from the page; requests are queued for the background thread."""
        self._last_seen_at = time.monotonic()
        handlers = {
            "ready": self._on_ready,
            "ack": self._on_ack,
            "alive": self._on_ack,
            "detach": self._on_detach,
            "hold": self._on_hold,
            "bye": self._on_bye,
        }
        handler = handlers.get(content.get("kind", ""))
        if handler:
            handler(content)
        elif self._requests.handles(content):
            self._work(lambda: self._reply(self._requests.handle(content)))

    def _facts(self) -> PageData:
        facts = facts_of(self._model)
        return {**facts, **self._rights} if facts else facts

    def _rewind(self, hello: PageData) -> None:
        self._cursor.rewind(
            int(hello.get("points", 0)),
            dict(hello.get("logs", {})),
            values=dict(hello.get("values", {})),
            generation=int(hello.get("generation", 0)),
        )

    def _on_ready(self, content: PageData) -> None:
        with self._lock:
            if not self._pages.hello(content):
                return
            self._hello = dict(content.get("have") or {"points": 0})
            self.has_page = self.is_hello_new = True
            self.is_removed = False
        self._ack_window.acknowledge()
        self._work(lambda: None)

    def _on_ack(self, content: PageData) -> None:
        self._pages.alive(content)
        self._ack_window.acknowledge(int(content.get("seq", 0)))

    def _on_detach(self, content: PageData) -> None:
        self.is_detached = True
        self._reply(text_answer(content, "detached: the job keeps running"))
        self._work(lambda: None)

    def _on_hold(self, content: PageData) -> None:
        self._is_in_use = bool(content.get("on"))

    def _on_bye(self, content: PageData) -> None:
        with self._lock:
            self._pages.bye(content)
            self.is_removed = not self._pages.is_any_open
            self.has_page = self.has_page and not self.is_removed
        self._work(lambda: None)

    def _reply(self, reply: Batch) -> None:
        with self._lock:
            self._replies.append(reply)


class EventSource(Protocol):
    """What a model follows, such as a `Follower`."""

    @property
    def is_over(self) -> bool:
        """Whether no event will follow."""

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read immediately."""

    def poll(self) -> Sequence[Event]:
        """Returns the events since the last poll; does not block."""


class FollowedJob(JobModel):
    """The model of a job that polls for its events."""

    max_interval_s = MAX_DELAY_S

    def __init__(self, source: EventSource, **options: Any) -> None:
        super().__init__(**options)
        self._source = source

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read immediately."""
        return self._source.is_behind

    def poll(self) -> bool:
        """Applies the events since the last poll, and returns whether there were any; does not block."""
        events = self._source.poll()
        for event in events:
            self.take(event)
        self.poll_ended()
        if self._source.is_over:
            self.end()
        return bool(events)


def followed_job(job: Job, source: EventSource | None = None) -> FollowedJob:
    """The model of a job with its current state; it follows `source`, by default all of the job's events."""
    model = FollowedJob(
        source or follower_of(job),
        processes=job.process_count(),
        patterns=job.patterns,
        preferences=metric_preferences(patterns=job.patterns),
    )
    model.take(StateChanged(job.show()))
    return model


def follower_of(job: Job) -> Follower:
    """What reads all events of a job."""
    return Follower(job.backend, job.id, patterns=job.patterns, with_telemetry=True, stalled_s=stalled_s())
