"""The anywidget model of a job's live view: small state as traits, log and points as binary messages."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from batchai_magics.widgets.core import pages
from batchai_magics.widgets.core.flow_control import OVERHEAD_BYTES, AckWindow, main_loop_scheduler
from batchai_magics.widgets.core.pages import Pages
from batchai_magics.widgets.job.answers import Answers, OpenJob, answer
from batchai_magics.widgets.job.batch import Batch, Cursor
from batchai_magics.widgets.job.facts import counts_of, facts_of
from batchai_magics.widgets.job.feed import JobFeed

if TYPE_CHECKING:
    from batchai_magics.jobs.handle import Job

PAGE_TIMEOUT_S = 60.0  # a page says something every 20 s

Work = Callable[[Callable[[], None]], None]


class JobView(anywidget.AnyWidget):
    """The live view. The publisher's thread calls `send_next`; messages from the page come in any thread.

    `work` runs a function soon, in a thread that may block: nothing here does.
    """

    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)
    view_id = traitlets.Unicode().tag(sync=True)
    facts = traitlets.Dict().tag(sync=True)
    counts = traitlets.Dict().tag(sync=True)
    history: traitlets.List[Any] = traitlets.List().tag(sync=True)
    files: traitlets.List[str] = traitlets.List().tag(sync=True)

    def __init__(
        self, job: Job, feed: JobFeed, *, view_id: str, work: Work, open_job: OpenJob | None = None
    ) -> None:
        self._answers = Answers(job, open_job, feed=feed)
        self._can_again = open_job is not None
        self._ack_window = AckWindow(main_loop_scheduler())
        self._feed = feed
        self._work = work
        self._cursor = Cursor()
        self._lock = threading.Lock()
        self._replies: deque[Batch] = deque()
        self._hello: dict[str, Any] | None = None
        self._version = feed.version
        self._last_seen_at = 0.0
        self._pages = Pages(time.monotonic)
        self._is_in_use = False
        self.has_page = False  # a page has said hello
        self.is_greeted = False  # since this was last taken note of
        self.is_detached = False
        self.is_removed = False  # the page has taken the view out
        super().__init__(
            _esm=pages.script(),
            _css=pages.style(),
            view_id=view_id,
            facts=self._facts(feed),
            counts=counts_of(feed),
            history=list(feed.history),
            files=feed.files,
        )
        self.on_msg(self._take)
        self._forget_route()

    @property
    def is_in_use(self) -> bool:
        """Whether somebody uses the view right now, on a page that still answers."""
        return self._is_in_use and time.monotonic() - self._last_seen_at < PAGE_TIMEOUT_S

    @property
    def has_all(self) -> bool:
        """Whether the page has been sent all there is, or does not listen any more."""
        with self._lock:
            is_waiting = bool(self._replies) or self._hello is not None
        if is_waiting or self._version != self._feed.version:
            return False
        return self._cursor.has_all(self._feed) or not self._ack_window.is_open

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if there is one, of at most about `limit_bytes`; returns its size."""
        if self._version != self._feed.version:
            return self._sync()
        if not self.has_page:
            return 0
        with self._lock:
            hello, self._hello = self._hello, None
            reply = self._replies.popleft() if self._replies else None
        if hello:
            self._rewind(hello)
        if reply is None and self._ack_window.is_open:
            reply = self._cursor.next_batch(self._feed, limit_bytes)
        if reply is None:
            return 0
        self.send(reply.content, reply.buffers)
        self._ack_window.sent(self._cursor.seq)
        self._forget_route()
        return reply.size_bytes

    def keep(self) -> None:
        """Tells a page to keep the view where it is: its output is about to become a still picture."""
        self.send({"kind": "keep"})
        self._forget_route()

    def _facts(self, feed: JobFeed) -> dict[str, Any]:
        facts = facts_of(feed)
        return {**facts, "can_again": self._can_again} if facts else facts

    def _rewind(self, hello: dict[str, Any]) -> None:
        self._cursor.rewind(
            int(hello.get("points", 0)),
            dict(hello.get("logs", {})),
            values=dict(hello.get("values", {})),
            generation=int(hello.get("generation", 0)),
        )

    def _sync(self) -> int:
        self._version = self._feed.version
        with self.hold_sync():
            self.facts = self._facts(self._feed)
            self.counts = counts_of(self._feed)
            self.history = list(self._feed.history)
            self.files = self._feed.files
        self._forget_route()
        return OVERHEAD_BYTES

    def _forget_route(self) -> None:
        """Lets the page's messages go to the subshell that it chose.

        ipykernel 7.4 routes them to the loop that published last: for a thread such as the publisher's that
        is the main one, and while a cell runs, nobody would hear them.
        """
        self.comm.__dict__.pop("_reply_subshell_id", None)

    def _take(self, _widget: object, content: dict[str, Any], _buffers: object) -> None:
        """Takes a message from the page; only notes what is to be done."""
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
        elif self._answers.takes(content):
            self._work(lambda: self._reply(self._answers.to(content)))

    def _on_ready(self, content: dict[str, Any]) -> None:
        with self._lock:
            if not self._pages.hello(content):
                return
            self._hello = dict(content.get("have") or {"points": 0})
            self.has_page = self.is_greeted = True
            self.is_removed = False
        self._ack_window.acknowledge()
        self._work(lambda: None)

    def _on_ack(self, content: dict[str, Any]) -> None:
        self._pages.alive(content)
        self._ack_window.acknowledge(int(content.get("seq", 0)))

    def _on_detach(self, content: dict[str, Any]) -> None:
        self.is_detached = True
        self._reply(answer(content, "detached: the job runs on"))
        self._work(lambda: None)

    def _on_hold(self, content: dict[str, Any]) -> None:
        self._is_in_use = bool(content.get("on"))

    def _on_bye(self, content: dict[str, Any]) -> None:
        with self._lock:
            self._pages.bye(content)
            self.is_removed = not self._pages.is_any_open
            self.has_page = self.has_page and not self.is_removed
        self._work(lambda: None)

    def _reply(self, reply: Batch) -> None:
        with self._lock:
            self._replies.append(reply)
