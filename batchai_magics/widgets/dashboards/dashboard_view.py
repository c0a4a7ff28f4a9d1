"""The anywidget model that all dashboards share."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, ClassVar

import anywidget
import traitlets

from batchai_magics.widgets.core import pages
from batchai_magics.widgets.core.cell_output import Clock, RunInBackground
from batchai_magics.widgets.core.feed import DashboardFeed, PageData
from batchai_magics.widgets.core.flow_control import OVERHEAD_BYTES
from batchai_magics.widgets.core.pages import PAGE_TIMEOUT_S, Pages

ROW_BYTES = 220


class DashboardView(anywidget.AnyWidget):
    """A header and rows, synced as traits. The publisher calls `send_next`; messages arrive in any thread.

    `work` schedules a function on a thread that may block; no method here blocks. A message whose kind is in
    `requests` is answered by the method `answer_<kind>`, on that thread.
    """

    script: ClassVar[str]
    requests: ClassVar[tuple[str, ...]] = ()

    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)
    view_id = traitlets.Unicode().tag(sync=True)
    facts = traitlets.Dict().tag(sync=True)
    rows: traitlets.List[PageData] = traitlets.List().tag(sync=True)

    def __init__(
        self, feed: DashboardFeed[Any], *, view_id: str, work: RunInBackground, clock: Clock
    ) -> None:
        self._feed = feed
        self._work = work
        self._lock = threading.Lock()
        self._replies: deque[PageData] = deque()
        self._version = feed.version
        self._clock = clock
        self._last_seen_at = clock()
        self._pages = Pages(clock)
        self._is_in_use = False
        self.has_page = False  # a page has said hello
        self.is_removed = False  # the page has removed the view
        super().__init__(
            _esm=pages.script(self.script),
            _css=pages.style(self.script),
            view_id=view_id,
            facts=feed.facts(),
            rows=feed.rows(),
        )
        self.on_msg(self._on_message)
        self._forget_route()

    @property
    def is_stale(self) -> bool:
        """Whether no page has sent a heartbeat lately, or the last one has removed the view."""
        return self.is_removed or self._clock() - self._last_seen_at > PAGE_TIMEOUT_S

    @property
    def is_in_use(self) -> bool:
        """Whether the pointer or focus is in the view, on a page that still answers."""
        return self._is_in_use and not self.is_stale

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if any, of about `limit_bytes` at most; returns its size in bytes."""
        if self._version != self._feed.version:
            return self._sync()
        if not self.has_page:
            return 0
        with self._lock:
            reply = self._replies.popleft() if self._replies else None
        reply = reply or self.next_message(limit_bytes)
        if reply is None:
            return 0
        self.send(reply)
        self._forget_route()
        return OVERHEAD_BYTES + len(str(reply))

    def next_message(self, limit_bytes: int) -> PageData | None:
        """The next message beside header and rows, if there is one."""
        return None

    def reset_page(self) -> None:
        """A page has said hello: it has the header and rows, but no messages."""

    def hear(self, content: PageData) -> None:
        """Any other message of a page, which needs no answer; called in any thread."""

    def _sync(self) -> int:
        self._version = self._feed.version
        with self.hold_sync():
            self.facts = self._feed.facts()
            self.rows = self._feed.rows()
        self._forget_route()
        return OVERHEAD_BYTES + ROW_BYTES * len(self.rows)

    def _forget_route(self) -> None:
        """Restores the routing of the page's messages to the subshell that it chose (see `JobView`)."""
        self.comm.__dict__.pop("_reply_subshell_id", None)

    def _on_message(self, _widget: object, content: PageData, _buffers: object) -> None:
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


def answer_to(content: PageData, text: str, *, is_done: bool = True) -> PageData:
    """The answer to a page's request: whether it succeeded, and a message for the user."""
    return {"kind": "answer", "id": content.get("id", ""), "text": text, "done": is_done}
