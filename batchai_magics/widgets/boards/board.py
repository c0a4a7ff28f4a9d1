"""A cluster or a list of jobs shown beneath a cell: live or as HTML that is refreshed, and frozen at rest."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable

from batchai_magics.widgets.boards.board_view import BoardFeed, BoardView, Clock
from batchai_magics.widgets.core import display
from batchai_magics.widgets.core.display import Bundle
from batchai_magics.widgets.job.batch import OVERHEAD_BYTES
from batchai_magics.widgets.job.still import EMPTY, twin_of

REFRESH_S = 2.0  # between two still pictures where no page shows a live view
SNAPSHOT_S = 30.0  # between two snapshots beside a live view
REST_S = 600.0  # after which a board where nothing happens becomes a still picture


class Board:
    """A picture that is refreshed until it is closed, or until nothing has happened for `REST_S`."""

    def __init__(self, key: str, feed: BoardFeed, *, clock: Clock) -> None:
        self.key = key
        self.known = feed
        self.id = uuid.uuid4().hex
        self.is_frozen = False
        self.is_closed = False
        self._clock = clock
        self._freezing = threading.Lock()
        self._version = feed.version
        self._shown_at = self._changed_at = clock()

    @property
    def is_gone(self) -> bool:
        """Whether the page has taken the view out."""
        return False

    @property
    def is_asleep(self) -> bool:
        """Whether nobody looks, so that nothing new need be asked for."""
        return False

    def open(self) -> None:
        """Shows it beneath the running cell."""
        display.show(self.known.bundle(), self.id)

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""
        return self.freeze() if self._is_over() else self._refresh(self.id, REFRESH_S, limit_bytes)

    def settle(self, wait_for: Callable[[Callable[[], bool]], bool]) -> None:
        """A cell has ended: a picture can still be refreshed, so nothing is done."""

    def freeze(self) -> int:
        """Makes it a still picture, once, from any thread. Returns what it took in bytes."""
        with self._freezing:
            if self.is_frozen:
                return 0
            self.is_frozen = True
            return self._freeze()

    def republish(self) -> int:
        """Publishes the still picture again if a page missed it. Returns what it took in bytes."""
        return 0

    def close(self) -> None:
        """Ends it as it stands."""
        self.freeze()
        self.is_closed = True

    def _freeze(self) -> int:
        bundle = self.known.bundle()
        display.update(bundle, self.id)
        return _size(bundle)

    def _is_over(self) -> bool:
        """Whether what it shows is gone, or nothing has happened for long."""
        if self.known.is_over:
            return True
        if self._version != self.known.version or not self.known.is_at_rest:
            self._changed_at = self._clock()
        return self._clock() - self._changed_at > REST_S

    def _refresh(self, display_id: str, interval_s: float, limit_bytes: int) -> int:
        is_new = self._version != self.known.version or not self.known.is_at_rest
        if limit_bytes < OVERHEAD_BYTES or not is_new or self._clock() - self._shown_at < interval_s:
            return 0
        self._shown_at, self._version = self._clock(), self.known.version
        bundle = self._picture()
        display.update(bundle, display_id)
        return _size(bundle)

    def _picture(self) -> Bundle:
        return self.known.bundle()


class LiveBoard(Board):
    """A live view, with a snapshot beside it for the saved notebook. It sleeps while no page looks."""

    def __init__(
        self,
        key: str,
        view: BoardView,
        feed: BoardFeed,
        *,
        clock: Clock,
        is_kept: bool = False,
    ) -> None:
        super().__init__(key, feed, clock=clock)
        self.view = view
        self.id = view.view_id
        self.second_id = f"{self.id}-second"
        self._is_kept = is_kept  # stays live at rest
        self._is_waiting = False  # frozen, until a page says hello
        self._hello_by = display.hello_by(clock())

    @property
    def is_gone(self) -> bool:
        """Whether the page has taken the view out."""
        return self.view.is_gone

    @property
    def is_asleep(self) -> bool:
        """Whether nobody looks, so that nothing new need be asked for."""
        return self.view.is_silent

    def open(self) -> None:
        """Shows the view, and the snapshot that it hides, beneath the running cell."""
        self._show_view(display.show)
        display.show(self._picture(), self.second_id)

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""
        if self._is_over() and not self.view.is_held and not (self._is_kept and not self.known.is_over):
            return self.freeze()
        interval_s = SNAPSHOT_S if self.view.is_heard else REFRESH_S
        return self.view.send_next(limit_bytes) or self._refresh(self.second_id, interval_s, limit_bytes)

    def settle(self, wait_for: Callable[[Callable[[], bool]], bool]) -> None:
        """Becomes a still picture when a cell has ended and no page has ever said hello.

        A page may need a while: it has HELLO_S, however many cells end meanwhile. If it says hello later,
        the live view comes back.
        """
        if not (self.view.is_heard or self.view.is_gone or self._clock() < self._hello_by):
            self._is_waiting = True
            self.freeze()

    def republish(self) -> int:
        """Gives a page that says hello what it should show: the still picture, or the live view again."""
        if self.view.is_gone and not self._is_waiting:
            self.close()
        if self.is_closed or not self.view.is_heard:
            return 0
        with self._freezing:
            if not self._is_waiting:
                return self._freeze()
            self._is_waiting = self.is_frozen = False
            self._show_view(display.update)
            display.update(self._picture(), self.second_id)
            return OVERHEAD_BYTES

    def close(self) -> None:
        """Ends it as it stands, and its model."""
        super().close()
        self.view.layout.close()  # a model of its own, which the view's end leaves
        self.view.close()

    def _freeze(self) -> int:
        self.view.is_heard = False
        display.update(EMPTY, self.second_id)
        return super()._freeze()

    def _show_view(self, show: Callable[[Bundle, str], None]) -> None:
        bundle, _ = self.view._repr_mimebundle_() or ({}, {})
        text = self.known.bundle()["text/plain"].partition("\n")[0]  # all of it is in the picture
        show({**bundle, "text/plain": text}, self.id)

    def _picture(self) -> Bundle:
        bundle = dict(self.known.bundle())
        if "text/html" in bundle:
            bundle["text/html"] = twin_of(self.id, bundle["text/html"])
        return bundle


def _size(bundle: Bundle) -> int:
    return OVERHEAD_BYTES + sum(map(len, bundle.values()))
