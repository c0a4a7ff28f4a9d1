"""A cluster or a list of jobs shown beneath a cell: live or as HTML that is refreshed, and frozen at rest."""

from __future__ import annotations

from typing import Any

from batchai_magics.widgets.boards.board_view import BoardView
from batchai_magics.widgets.core import display
from batchai_magics.widgets.core.budget import OVERHEAD_BYTES
from batchai_magics.widgets.core.display import EMPTY, Bundle
from batchai_magics.widgets.core.feed import BoardFeed
from batchai_magics.widgets.core.showing import REFRESH_S, Clock, LiveShowing, Showing, Wait

REST_S = 600.0  # after which a board where nothing happens becomes a still picture


class Board(Showing):
    """A picture that is refreshed until it is closed, or until nothing has happened for `REST_S`."""

    feed: BoardFeed[Any]

    def __init__(self, key: str, feed: BoardFeed[Any], *, clock: Clock) -> None:
        super().__init__(key, feed, clock=clock)
        self._changed_at = self._updated_at

    def open(self) -> None:
        """Shows it beneath the running cell."""
        display.show(self._picture(), self.id)

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""
        if self._is_over():
            return self.freeze()
        return self._update(self._picture(), self.id) if self._is_due(REFRESH_S, limit_bytes) else 0

    def settle(self, wait_for: Wait) -> None:
        """A cell has ended: a picture can still be refreshed, so nothing is done."""

    def _picture(self) -> Bundle:
        return self.feed.bundle()

    def _is_over(self) -> bool:
        """Whether what it shows is gone, or nothing has happened for long."""
        if self.feed.is_over:
            return True
        if self._is_moving:
            self._changed_at = self._clock()
        return self._clock() - self._changed_at > REST_S

    def _is_due(self, interval_s: float, limit_bytes: int) -> bool:
        """Whether a newer picture is to be sent."""
        is_late = self._clock() - self._updated_at >= interval_s
        return limit_bytes >= OVERHEAD_BYTES and self._is_moving and is_late

    @property
    def _is_moving(self) -> bool:
        """Whether the picture is not what it was, or will not be for long."""
        return self._updated_version != self.feed.version or not self.feed.is_at_rest


class LiveBoard(LiveShowing, Board):
    """A live view, with a snapshot beside it for the saved notebook. It sleeps while no page looks."""

    view: BoardView

    def __init__(
        self, key: str, view: BoardView, feed: BoardFeed[Any], *, clock: Clock, is_kept: bool = False
    ) -> None:
        super().__init__(key, feed, clock=clock)
        self.id = view.view_id
        self.second_id = f"{self.id}-second"
        self._go_live(view, is_kept=is_kept)
        self._is_waiting = False  # frozen, until a page says hello

    @property
    def is_asleep(self) -> bool:
        """Whether nobody looks, so that nothing new need be asked for."""
        return self.view.is_silent

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""
        if self._is_over() and not self.view.is_held and not (self._is_kept and not self.feed.is_over):
            return self.freeze()
        sent = self.view.send_next(limit_bytes)
        if sent or not self._is_due(self._snapshot_s, limit_bytes):
            return sent
        return self._update(self._snapshot(), self.second_id)

    def settle(self, wait_for: Wait) -> None:
        """Becomes a still picture when a cell has ended and no page has ever said hello.

        A page may need a while: it has HELLO_S, however many cells end meanwhile. If it says hello later,
        the live view comes back.
        """
        if not (self.view.is_heard or self.view.is_gone or self._is_awaited):
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
            display.update(self._snapshot(), self.second_id)
            return OVERHEAD_BYTES

    def _freeze(self) -> int:
        self.view.is_heard = False
        display.update(EMPTY, self.second_id)
        return super()._freeze()
