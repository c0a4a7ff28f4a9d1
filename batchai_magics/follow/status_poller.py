"""Status polling: all pollers of a backend in this process share its requests, within its rate limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

from batchai_magics.backends.base.capabilities import StatusSnapshot

if TYPE_CHECKING:
    from batchai_magics.backends.base.protocol import Backend
    from batchai_magics.models.resource_ids import ResourceId


FRESH_S = 0.2  # cache TTL for another poller's snapshot; generous, because a busy machine is slow


class StatusPoller:
    """Polls the status of some jobs and clusters.

    One request serves all pollers of the backend in this process; the backend's pace is the rate limit.

    Attributes:
        backend: The backend that is polled.
        ids: `id.key` → id of what is polled.
        seen: The number of the last snapshot that this poller got.
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
        with _registration_lock:
            self._shared = _all_shared_polls.setdefault(backend, _SharedPolls())
        self.seen = self._shared.register(self)

    def add(self, id: ResourceId) -> None:
        """Adds a job or cluster to poll."""
        self.ids[id.key] = id

    def poll(self) -> StatusSnapshot | None:
        """The next snapshot; None until the backend's rate limit allows another request.

        Raises:
            UnreachableError: The service does not respond.
        """
        return self._shared.poll_for(self)


class _SharedPolls:
    """The last snapshot of a backend, and its pollers; it keeps no reference to the backend."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pollers: WeakSet[StatusPoller] = WeakSet()
        self._last = StatusSnapshot({})
        self._polled: frozenset[str] = frozenset()
        self._number = 0
        self._taken_at = 0.0

    def register(self, poller: StatusPoller) -> int:
        """Registers a poller and returns the number of the last snapshot, which it does not get."""
        with self._lock:
            self._pollers.add(poller)
            return self._number

    def poll_for(self, poller: StatusPoller) -> StatusSnapshot | None:
        """A snapshot that this poller has not seen: a cached one within its TTL, or a new one."""
        pace = poller.backend.capabilities.pace
        with self._lock:
            age_s = poller.clock() - self._taken_at
            if self._polled.issuperset(poller.ids):
                if poller.seen < self._number and age_s <= max(FRESH_S, pace.poll_interval_s):
                    poller.seen = self._number
                    return self._last
                if poller.seen == self._number and age_s < pace.poll_interval_s:
                    return None
            ids = {key: id for waiting_poller in self._pollers for key, id in waiting_poller.ids.items()}
            poller.backend.reconcile()
            since = self._last if self._polled == ids.keys() else None
            self._last = poller.backend.status(list(ids.values()), since=since)
            self._taken_at = poller.clock()
            self._polled = frozenset(ids)
            self._number += 1
            poller.seen = self._number
            return self._last


_all_shared_polls: WeakKeyDictionary[Any, _SharedPolls] = WeakKeyDictionary()
_registration_lock = threading.Lock()
