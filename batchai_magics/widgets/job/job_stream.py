"""What one view of a job is sent, and the model that follows the job."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from batchai_magics.follow import MAX_DELAY_S, Event, Follower, StateChanged
from batchai_magics.jobs.job_model import JobModel
from batchai_magics.jobs.metric_settings import metric_preferences
from batchai_magics.jobs.watch_records import stalled_s
from batchai_magics.widgets.core.flow_control import AckWindow, Schedule
from batchai_magics.widgets.core.polled_model import PageData
from batchai_magics.widgets.core.view_stream import Batch, RunInBackground, ViewStream
from batchai_magics.widgets.job.job_header import counts_of, facts_of, profile_fields
from batchai_magics.widgets.job.message_batch import Cursor
from batchai_magics.widgets.job.page_requests import OpenJob, RequestHandler, text_answer

if TYPE_CHECKING:
    from batchai_magics.jobs.job_handle import Job


class JobStream(ViewStream):
    """What one view of a job is sent: what header and tabs show as its state, log and points as messages."""

    _model: JobModel

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
        self._cursor = Cursor()
        self._hello: PageData | None = None
        self.is_hello_new = False  # a page has said hello, which has not been handled yet
        self.is_detached = False
        ViewStream.__init__(self, model, work=work, clock=time.monotonic)

    @property
    def is_gone(self) -> bool:
        """Whether nothing more is to be sent."""
        return self.is_removed or self.is_detached

    @property
    def is_unwatched(self) -> bool:
        """Never: the job is followed with or without a page."""
        return False

    @property
    def is_up_to_date(self) -> bool:
        """Whether the page has been sent everything, or no longer acknowledges messages."""
        with self._lock:
            is_waiting = bool(self._replies) or self._hello is not None
        if is_waiting or self._version != self._model.version:
            return False
        return self._cursor.is_up_to_date(self._model) or not self._ack_window.is_open

    def current_state(self) -> PageData:
        """What the header and the tabs show."""
        facts = facts_of(self._model)
        return {
            "facts": {**facts, **self._rights} if facts else facts,
            "counts": counts_of(self._model),
            "history": list(self._model.history),
            "files": self._model.files,
            "profile": profile_fields(self._model),
        }

    def next_message(self, limit_bytes: int) -> Batch | None:
        """The next batch of what the page lacks, unless it acknowledges nothing any more."""
        with self._lock:
            hello, self._hello = self._hello, None
        if hello:
            self._cursor.rewind(
                int(hello.get("points", 0)),
                dict(hello.get("logs", {})),
                values=dict(hello.get("values", {})),
                generation=int(hello.get("generation", 0)),
            )
        batch = self._cursor.next_batch(self._model, limit_bytes) if self._ack_window.is_open else None
        self._ack_window.sent(self._cursor.seq)
        return batch

    def on_hello(self, content: PageData) -> None:
        """A page has said hello, and what it has already."""
        self._hello = dict(content.get("have") or {"points": 0})
        self.is_hello_new = True
        self._ack_window.acknowledge()

    def on_message(self, content: PageData) -> None:
        """The page acknowledges messages, or detaches the view."""
        kind = content.get("kind")
        if kind in ("ack", "alive"):
            self._ack_window.acknowledge(int(content.get("seq", 0)))
        elif kind == "detach":
            self.is_detached = True
            self.reply(text_answer(content, "detached: the job keeps running"))
            self._work(lambda: None)

    def handles(self, content: PageData) -> bool:
        """Whether a message is a request about the job."""
        return self._requests.handles(content)

    def answer(self, content: PageData) -> Batch:
        """The reply to a request; may block."""
        return self._requests.handle(content)

    def keep(self) -> None:
        """Tells the page to keep the view although its output is about to be frozen."""
        self.transmit(Batch({"kind": "keep"}))


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
