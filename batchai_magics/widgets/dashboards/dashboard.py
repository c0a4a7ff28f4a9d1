"""What all dashboards share: the model that polls a backend for them, what a view is sent, and the widget."""

from __future__ import annotations

import threading
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import ClassVar

import traitlets

from batchai_magics.widgets.core.cell_output import Clock, RunInBackground
from batchai_magics.widgets.core.display import Bundle
from batchai_magics.widgets.core.flow_control import OVERHEAD_BYTES
from batchai_magics.widgets.core.live_view import LiveView
from batchai_magics.widgets.core.pages import PAGE_TIMEOUT_S, Pages
from batchai_magics.widgets.core.polled_model import PageData
from batchai_magics.widgets.job.message_batch import Batch

ROW_BYTES = 220

OpenJobs = Callable[..., str]
"""Called with the handles of jobs: creates the live view of one, or a comparison of several, for embedding in
another view, and returns its widget's id."""


class DashboardModel(ABC):
    """A header and rows (nodes, jobs, runs or trials)."""

    noun: str
    max_interval_s: float

    def __init__(self) -> None:
        self.problem, self.is_over, self.version = "", False, 0

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read immediately."""
        return False

    @abstractmethod
    def poll(self) -> bool:
        """Applies what has happened since the last poll, and returns whether anything has; does not block."""

    def report_problem(self, problem: str) -> None:
        """Sets the message that explains why updates have stopped; an empty text clears it."""
        self.version += problem != self.problem
        self.problem = problem

    def end(self) -> None:
        """Marks the model as complete."""
        self.is_over = True
        self.version += 1

    @property
    @abstractmethod
    def is_at_rest(self) -> bool:
        """Whether nothing is changing or about to change."""

    @property
    @abstractmethod
    def way_back(self) -> str:
        """The command that shows it again."""

    @abstractmethod
    def facts(self) -> PageData:
        """What the header shows."""

    @abstractmethod
    def rows(self) -> list[PageData]:
        """What the dashboard lists."""

    @abstractmethod
    def bundle(self) -> Bundle:
        """A snapshot as HTML and text, or as text only while nothing is known."""


class DashboardStream:
    """What one view of a dashboard is sent: header and rows as its state, and messages.

    A subclass carries both. The publisher calls `send_next`; the page's messages arrive in any thread at
    `receive`. `work` schedules a function on a thread that may block; no method here blocks. A message whose
    kind is in `requests` is answered by the method `answer_<kind>`, on that thread.
    """

    requests: ClassVar[tuple[str, ...]] = ()

    def __init__(self, model: DashboardModel, *, work: RunInBackground, clock: Clock) -> None:
        self._model = model
        self._work = work
        self._lock = threading.Lock()
        self._replies: deque[PageData] = deque()
        self._version = model.version
        self.state: PageData = {"facts": model.facts(), "rows": model.rows()}
        """What the page has been sent: the header and the rows."""
        self._clock = clock
        self._last_seen_at = clock()
        self._pages = Pages(clock)
        self._is_in_use = False
        self.has_page = False  # a page has said hello
        self.is_removed = False  # the page has removed the view

    @abstractmethod
    def transmit(self, message: Batch) -> None:
        """Sends a message to the page."""

    @abstractmethod
    def publish_state(self, state: PageData) -> None:
        """Replaces the state that the page has, by name."""

    @property
    def is_gone(self) -> bool:
        """Whether the page has removed the view."""
        return self.is_removed

    @property
    def is_unwatched(self) -> bool:
        """Whether no page has sent a heartbeat lately, or the last one has removed the view."""
        return self.is_removed or self._clock() - self._last_seen_at > PAGE_TIMEOUT_S

    @property
    def is_in_use(self) -> bool:
        """Whether the pointer or focus is in the view, on a page that still answers."""
        return self._is_in_use and not self.is_unwatched

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if any, of about `limit_bytes` at most; returns its size in bytes."""
        if self._version != self._model.version:
            self._version = self._model.version
            self.state = {"facts": self._model.facts(), "rows": self._model.rows()}
            self.publish_state(self.state)
            return OVERHEAD_BYTES + ROW_BYTES * len(self.state["rows"])
        if not self.has_page:
            return 0
        with self._lock:
            reply = self._replies.popleft() if self._replies else None
        reply = reply or self.next_message(limit_bytes)
        if reply is None:
            return 0
        self.transmit(Batch(reply))
        return OVERHEAD_BYTES + len(str(reply))

    def next_message(self, limit_bytes: int) -> PageData | None:
        """The next message beside header and rows, if there is one."""
        return None

    def reset_page(self) -> None:
        """A page has said hello: it has the header and rows, but no messages."""

    def hear(self, content: PageData) -> None:
        """Any other message of a page, which needs no answer; called in any thread."""

    def receive(self, content: PageData) -> None:
        """Dispatches a message from the page; requests are queued for the background thread."""
        self._last_seen_at = self._clock()
        kind = content.get("kind")
        if kind == "ready":
            self._on_ready(content)
        elif kind == "hold":
            self._is_in_use = bool(content.get("on"))
        elif kind == "bye":
            self._on_bye(content)
        else:
            self._pages.alive(content)
            self.hear(content)
        if kind in self.requests:
            self._work(lambda: self._reply(getattr(self, f"answer_{kind}")(content)))
        else:
            self._work(lambda: None)

    def _on_ready(self, content: PageData) -> None:
        with self._lock:
            if not self._pages.hello(content):
                return
            self.has_page, self.is_removed = True, False
        self.reset_page()
        self._reply({"kind": "welcome"})

    def _on_bye(self, content: PageData) -> None:
        with self._lock:
            self._pages.bye(content)
            self.is_removed = not self._pages.is_any_open
            self.has_page = self.has_page and not self.is_removed

    def _reply(self, reply: PageData) -> None:
        with self._lock:
            self._replies.append(reply)


class DashboardView(DashboardStream, LiveView):
    """The dashboard in a notebook: the kernel carries header and rows as traits."""

    script: ClassVar[str]

    facts = traitlets.Dict().tag(sync=True)
    rows: traitlets.List[PageData] = traitlets.List().tag(sync=True)

    def __init__(self, model: DashboardModel, *, work: RunInBackground, clock: Clock) -> None:
        DashboardStream.__init__(self, model, work=work, clock=clock)
        LiveView.__init__(self, self.script, uuid.uuid4().hex, **self.state)
        self.on_msg(lambda _widget, content, _buffers: self.receive(content))

    def transmit(self, message: Batch) -> None:
        """Sends a message to the page."""
        self.send(message.content)
        self.keep_route()

    def publish_state(self, state: PageData) -> None:
        """Replaces the state that the page has, by name."""
        with self.hold_sync():
            self.facts, self.rows = state["facts"], state["rows"]
        self.keep_route()


def answer_to(content: PageData, text: str, *, is_done: bool = True) -> PageData:
    """The answer to a page's request: whether it succeeded, and a message for the user."""
    return {"kind": "answer", "id": content.get("id", ""), "text": text, "done": is_done}
