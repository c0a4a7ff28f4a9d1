"""A polled model, and the streams of its views: what each view is sent, and its page's messages."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Protocol, TypeAlias

from batchai_magics.errors import BatchAIError, NotFoundError, UnreachableError
from batchai_magics.follow import PollBackoff
from batchai_magics.widgets.core.flow_control import OVERHEAD_BYTES
from batchai_magics.widgets.core.pages import PAGE_TIMEOUT_S, Pages

_log = logging.getLogger(__name__)

TICK_S = 0.1  # between two steps of the publisher
MAX_CPU_SHARE = 0.1  # of a core for polling one model: larger batches cost less
MAX_COST_S = 0.5  # upper limit of the resulting poll interval
ROW_BYTES = 220  # of a row in the state
UNKNOWN_REQUEST = "This view cannot do that."

Clock = Callable[[], float]
RunInBackground = Callable[[Callable[[], None]], None]  # schedules a function on a thread that may block

PageData: TypeAlias = dict[str, Any]
"""JSON between the kernel and the page; `frontend/core/messages.d.ts` has a type for each of its shapes."""


class PolledModel(Protocol):
    """The state of one resource. `version` increases with every change that views must show immediately."""

    noun: str  # what it shows, for messages
    version: int
    problem: str
    is_over: bool  # nothing will change any more
    max_interval_s: float  # longest poll interval, while nothing changes

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read immediately."""

    def poll(self) -> bool:
        """Applies the changes since the last poll; returns whether there were any; does not block."""

    def report_problem(self, problem: str) -> None:
        """Sets the message that explains why updates have stopped; an empty text clears it."""

    def end(self) -> None:
        """Marks the model as complete."""


class ModelPoller:
    """Polls a model, which any number of views share; less often while nothing changes or polls cost much.

    `cpu_time` returns the thread's CPU time in seconds.
    """

    def __init__(self, model: PolledModel, *, cpu_time: Callable[[], float] = time.thread_time) -> None:
        self.model = model
        self._cpu_time = cpu_time
        self.had_output = False  # some output has shown the model
        self._backoff = PollBackoff(TICK_S, model.max_interval_s)
        self._due_at = 0.0

    def poll(self, now: float) -> None:
        """Polls the model if it is due."""
        if self.model.is_over or now < self._due_at:
            return
        started_at_s = self._cpu_time()
        try:
            delay_s = self._poll_model()
        except Exception as error:  # noqa: BLE001  # one failing model must not stop the others
            _log.debug("what a live view shows cannot be read", exc_info=True)
            self.model.report_problem(stopped_message(error))
            self._due_at = math.inf  # also if `end` fails
            with contextlib.suppress(Exception):
                self.model.end()
            return
        cost_s = min(MAX_COST_S, (self._cpu_time() - started_at_s) / MAX_CPU_SHARE)
        self._due_at = now if self.model.is_behind else now + max(delay_s, cost_s)

    def _poll_model(self) -> float:
        """Polls the model; returns the delay before the next poll, in seconds."""
        model, is_news, problem = self.model, False, ""
        try:
            is_news = model.poll()
        except UnreachableError as error:
            model.report_problem(f"{error.message}. Trying again; nothing is lost.")
            return self._backoff.after_failure()
        except NotFoundError:
            problem = f"The {model.noun} was deleted."
            model.end()
        except BatchAIError as error:
            problem = error.message
        model.report_problem(problem)
        return self._backoff.after(is_news=is_news)


def stopped_message(error: Exception) -> str:
    """The message of a live view that failed."""
    return f"The live view stopped: {error}"


def milliseconds(moment: datetime) -> int:
    """A time in milliseconds since 1970, as the page expects it."""
    return int(moment.timestamp() * 1000)


@dataclass(frozen=True)
class Batch:
    """A message: its content and its binary buffers."""

    content: PageData
    buffers: list[bytes] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """The approximate size on the wire."""
        return OVERHEAD_BYTES + sum(map(len, self.buffers))


def reply_to(content: PageData, *buffers: bytes, **fields: object) -> Batch:
    """The reply to a request; a field `text` is for the user, such as why the request failed."""
    return Batch({"kind": "reply", "id": content.get("id", ""), **fields}, list(buffers))


class Carrier(Protocol):
    """Brings the state and the messages of a view to its page: a kernel, HTTP or a recording."""

    @property
    def is_gone(self) -> bool:
        """Whether nothing more is to be sent."""

    def transmit(self, message: Batch) -> None:
        """Sends a message to the page."""

    def publish_state(self, state: PageData) -> None:
        """Replaces the state that the page has, by name."""

    def close(self) -> None:
        """Ends the view."""


class ViewStream:
    """What one view is sent: its state by name, and messages; its carrier brings them to the page.

    The publisher's thread calls `send_next`; messages from the page arrive in any thread at `receive`. `work`
    schedules a function on a thread that may block; no method here blocks but `respond`, which is called
    there. `script` is the ES module that draws the view.
    """

    script: ClassVar[str]
    carrier: Carrier  # set by the carrier's constructor

    def __init__(self, model: PolledModel, *, work: RunInBackground, clock: Clock) -> None:
        self._model, self._work, self._clock = model, work, clock
        self._lock = threading.Lock()
        self._replies: deque[Batch] = deque()
        self._version = model.version
        self.state = self.current_state()
        """What the page has been sent."""
        self._last_seen_at = clock()
        self._pages = Pages(clock)
        self._is_in_use = False
        self.has_page = False  # a page has said hello
        self.is_removed = False  # the page has removed the view

    # -- what the view sends, and how it responds

    @abstractmethod
    def current_state(self) -> PageData:
        """The state of the model, by name."""

    @abstractmethod
    def next_message(self, limit_bytes: int) -> Batch | None:
        """The next message of about `limit_bytes` at most that the page lacks beside the state, if any."""

    def on_hello(self, content: PageData) -> None:
        """A page has said hello: it has the state, but no messages. The lock is held."""

    def on_message(self, content: PageData) -> None:
        """Any other message of a page but a request, in any thread."""

    def respond(self, content: PageData) -> Batch:
        """The reply to a request, a message with an id; may block. A BatchAIError becomes a reply, too."""
        return reply_to(content, text=UNKNOWN_REQUEST)

    # -- the page

    @property
    def is_gone(self) -> bool:
        """Whether nothing more is to be sent."""
        return self.is_removed

    @property
    def is_unwatched(self) -> bool:
        """Whether no page has sent a heartbeat lately, or the last one has removed the view."""
        return not self._is_page_alive

    @property
    def page_count(self) -> int:
        """How many pages have shown the view so far; one that is loaded again counts again."""
        return self._pages.count

    @property
    def is_in_use(self) -> bool:
        """Whether the pointer or focus is in the view, on a page that still answers."""
        return self._is_in_use and self._is_page_alive

    @property
    def _is_page_alive(self) -> bool:
        return not self.is_removed and self._clock() - self._last_seen_at <= PAGE_TIMEOUT_S

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if any, of about `limit_bytes` at most; returns its size in bytes."""
        if self._version != self._model.version:
            self._version = self._model.version
            self.state = self.current_state()
            self.carrier.publish_state(self.state)
            return OVERHEAD_BYTES + ROW_BYTES * len(self.state.get("rows", ()))
        if not self.has_page:
            return 0
        with self._lock:
            reply = self._replies.popleft() if self._replies else None
        message = reply or self.next_message(limit_bytes)
        if message is None:
            return 0
        self.carrier.transmit(message)
        return message.size_bytes + len(str(message.content))

    def receive(self, content: PageData) -> None:
        """Dispatches a message from the page; requests are answered on the background thread."""
        was_unwatched = self.is_unwatched
        self._last_seen_at = self._clock()
        kind = content.get("kind")
        if kind == "ready":
            with self._lock:
                if self._pages.hello(content):
                    self.on_hello(content)
                    self.has_page, self.is_removed = True, False
        elif kind == "bye":
            with self._lock:
                self._pages.bye(content)
                self.is_removed = not self._pages.is_any_open
                self.has_page = self.has_page and not self.is_removed
        elif kind == "hold":
            self._is_in_use = bool(content.get("on"))
        else:
            self._pages.alive(content)
            self.on_message(content)
        if "id" in content:
            self._work(lambda: self._queue_reply(content))
        elif was_unwatched or kind in ("ready", "bye"):
            self._work(lambda: None)  # the publisher may be waiting

    def _queue_reply(self, content: PageData) -> None:
        """Queues the reply to a request for the page."""
        try:
            reply = self.respond(content)
        except BatchAIError as error:
            reply = reply_to(content, text=error.message)
        with self._lock:
            self._replies.append(reply)
