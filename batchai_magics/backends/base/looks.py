"""Looks that all who watch a backend in this process share, no more of them than its pace allows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from batchai_magics.backends.base.values import Look

if TYPE_CHECKING:
    from batchai_magics.backends.base.protocol import Backend
    from batchai_magics.models.ids import ResourceId

FRESH_S = 0.2  # a look that another has just taken is as good as a new one; a busy machine takes its time


class Watcher:
    """Somebody who looks at some jobs and clusters again and again, with all others who do.

    Each look of one of them is for all watchers of the backend in this process.
    """

    def __init__(
        self,
        backend: Backend,
        ids: Iterable[ResourceId],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.backend = backend
        self.ids = {id.key: id for id in ids}
        self.clock = clock
        self._shared = _shared_looks(backend)
        self.seen = self._shared.enter(self)

    def add(self, id: ResourceId) -> None:
        """Looks at one more from now on."""
        self.ids[id.key] = id

    def look(self) -> Look | None:
        """The next look at them; None as long as the backend's pace allows no other one."""
        return self._shared.next_for(self)


class _SharedLooks:
    """The last look at a backend, and all who watch it. It never holds the backend itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watchers: WeakSet[Watcher] = WeakSet()
        self._last = Look({})
        self._asked: frozenset[str] = frozenset()
        self._number = 0
        self._taken_at = 0.0

    def enter(self, watcher: Watcher) -> int:
        """Takes a watcher in; gives the number of the last look before it came."""
        with self._lock:
            self._watchers.add(watcher)
            return self._number

    def next_for(self, watcher: Watcher) -> Look | None:
        """A look that the watcher has not had: one that another has just taken, or a new one."""
        pace = watcher.backend.capabilities.pace
        with self._lock:
            age_s = watcher.clock() - self._taken_at
            if self._asked.issuperset(watcher.ids):
                if watcher.seen < self._number and age_s <= max(FRESH_S, pace.look_s):
                    watcher.seen = self._number
                    return self._last
                if watcher.seen == self._number and age_s < pace.look_s:
                    return None
            self._take(watcher)
            return self._last

    def _take(self, watcher: Watcher) -> None:
        ids = {key: id for each in self._watchers for key, id in each.ids.items()}
        self._last = watcher.backend.look(list(ids.values()))
        self._taken_at = watcher.clock()
        self._asked = frozenset(ids)
        self._number += 1
        watcher.seen = self._number


_all_shared_looks: WeakKeyDictionary[Any, _SharedLooks] = WeakKeyDictionary()
_entering = threading.Lock()


def _shared_looks(backend: Backend) -> _SharedLooks:
    with _entering:
        return _all_shared_looks.setdefault(backend, _SharedLooks())
