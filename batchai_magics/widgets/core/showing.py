"""A thing shown beneath a cell: kept up to date by the publisher, and at last a still picture."""

from __future__ import annotations

import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from batchai_magics.widgets.core import display
from batchai_magics.widgets.core.budget import OVERHEAD_BYTES
from batchai_magics.widgets.core.display import Bundle
from batchai_magics.widgets.core.feed import Feed

SNAPSHOT_S = 30.0  # between two snapshots beside a live view
REFRESH_S = 2.0  # between two pictures where no page shows a live view

Clock = Callable[[], float]
Wait = Callable[[Callable[[], bool]], bool]  # until something is so; whether it is


class Showing(ABC):
    """One output, or two, of a cell. Only the publisher's thread calls `send_next` and `republish`.

    `key` is what it shows: the id of a resource, in lower case.
    """

    def __init__(self, key: str, feed: Feed[Any], *, clock: Clock) -> None:
        self.key = key
        self.feed = feed
        self.id = uuid.uuid4().hex
        self.second_id = f"{self.id}-second"
        self.is_frozen = False
        self.is_closed = False
        self._clock = clock
        self._freezing = threading.Lock()
        self._updated_at = clock()
        self._updated_version = feed.version

    @property
    def is_gone(self) -> bool:
        """Whether the page has taken the view out."""
        return False

    @property
    def is_asleep(self) -> bool:
        """Whether nobody looks, so that nothing new need be asked for."""
        return False

    @abstractmethod
    def open(self) -> None:
        """Shows it beneath the running cell."""

    @abstractmethod
    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if one is due; returns its size in bytes."""

    @abstractmethod
    def settle(self, wait_for: Wait) -> None:
        """A cell has ended: it becomes a still picture if this is the moment to."""

    def freeze(self) -> int:
        """Makes it a still picture, once, from any thread. Returns what it took in bytes."""
        with self._freezing:
            return 0 if self.is_frozen else self._freeze()

    def republish(self) -> int:
        """Publishes the still picture again if a page missed it. Returns what it took in bytes."""
        return 0

    def close(self) -> None:
        """Ends it as it stands."""
        self.freeze()
        self.is_closed = True

    def _freeze(self) -> int:
        """Publishes the still picture; the lock is held."""
        bundle = self._last_picture()
        display.update(bundle, self.id)
        self.is_frozen = True
        return size_of(bundle)

    @abstractmethod
    def _picture(self) -> Bundle:
        """It as it stands now: HTML and text, or text alone while nothing is known."""

    def _last_picture(self) -> Bundle:
        """What stays."""
        return self._picture()

    def _update(self, bundle: Bundle, display_id: str) -> int:
        """Replaces a picture by a newer one; returns the size in bytes."""
        self._updated_at, self._updated_version = self._clock(), self.feed.version
        display.update(bundle, display_id)
        return size_of(bundle)


class View(Protocol):
    """The model of a live view, as far as a showing needs it."""

    is_heard: bool  # a page has said hello
    is_gone: bool  # the page has taken the view out
    layout: Any

    def send_next(self, limit_bytes: int) -> int:
        """Sends the next message, if there is one, of at most about `limit_bytes`; returns its size."""

    def close(self) -> None:
        """Ends the model."""

    def _repr_mimebundle_(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """What a page makes the view from."""


class LiveShowing(Showing):
    """What a live view adds: a snapshot beside it for the saved notebook, which the view hides."""

    view: View

    def _go_live(self, view: View, *, is_kept: bool) -> None:
        """Takes the view, which is `is_kept` where it stays when nothing happens any more."""
        self.view = view
        self._is_kept = is_kept
        self._hello_by = display.hello_by(self._clock())

    @property
    def is_gone(self) -> bool:
        """Whether the page has taken the view out."""
        return self.view.is_gone

    def open(self) -> None:
        """Shows the view, and the snapshot that it hides, beneath the running cell."""
        self._show_view(display.show)
        display.show(self._snapshot(), self.second_id)

    def close(self) -> None:
        """Ends it as it stands, and its model."""
        self.is_closed = True
        super().close()
        self.view.layout.close()  # a model of its own, which the view's end leaves
        self.view.close()

    @property
    def _is_awaited(self) -> bool:
        """Whether the page that asked for the view may still say hello."""
        return self._clock() < self._hello_by

    @property
    def _snapshot_s(self) -> float:
        """How often the picture beside the view is brought up to date."""
        return SNAPSHOT_S if self.view.is_heard else REFRESH_S

    def _snapshot(self) -> Bundle:
        return display.hidden_by(self.id, self._picture())

    def _show_view(self, show: Callable[[Bundle, str], None]) -> None:
        bundle, _ = self.view._repr_mimebundle_() or ({}, {})
        show({**bundle, "text/plain": self._title()}, self.id)

    def _title(self) -> str:
        """What stands for the view where there is only text: all of it is in the snapshot."""
        return self._picture()["text/plain"].partition("\n")[0]


def size_of(bundle: Bundle) -> int:
    """About how much a bundle takes on the wire."""
    return OVERHEAD_BYTES + sum(map(len, bundle.values()))
