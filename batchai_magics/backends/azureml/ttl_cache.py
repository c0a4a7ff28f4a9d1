"""A cache of values that were read recently, each with its own lifetime."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class TtlCache(Generic[_Value]):
    """Values by key; the `max_size` most recently used are kept. Thread-safe; a read does not block others.

    `life_s` returns for how many seconds a value is used.
    """

    def __init__(
        self,
        life_s: Callable[[_Value], float],
        *,
        max_size: int = 4096,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._life_s, self._max_size, self.clock = life_s, max_size, clock
        self._lock = threading.Lock()
        self._values: dict[str, tuple[float, _Value]] = {}  # with the time when each expires

    def get(self, key: str, read: Callable[[], _Value]) -> _Value:
        """The value of a key, read if it is unknown or too old."""
        now_s = self.clock()
        with self._lock:
            known = self._values.pop(key, None)
            if known and now_s < known[0]:
                self._values[key] = known  # last: in the order of use
                return known[1]
        value = read()
        with self._lock:
            known = self._values.pop(key, None)
            if not known or now_s >= known[0]:  # else another thread was faster
                known = now_s + self._life_s(value), value
            self._values[key] = known
            while len(self._values) > self._max_size:
                self._values.pop(next(iter(self._values)))
            return known[1]

    def forget(self, key: str) -> None:
        """Drops a value, so that it is read again."""
        with self._lock:
            self._values.pop(key, None)
