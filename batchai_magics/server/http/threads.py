"""Handlers run in threads: a backend's verbs are synchronous, and the loop must not wait for them."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")


class Threads:
    """So many calls at once; the others wait for their turn."""

    def __init__(self, count: int) -> None:
        self._limiter = anyio.CapacityLimiter(count)

    async def run(self, work: Callable[[], T]) -> T:
        """What the work gives or raises; it is not stopped when nobody waits for it any more."""
        return await anyio.to_thread.run_sync(work, limiter=self._limiter, abandon_on_cancel=True)

    async def each(self, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        """The pieces of an iterator, each made in a thread; it is closed when nobody wants them any more."""
        one_by_one = _OneByOne(pieces)
        try:
            while (piece := await self.run(one_by_one.next)) is not None:
                yield piece
        finally:  # the loop does not wait for it: the last piece may still be under way
            if not one_by_one.is_over:
                threading.Thread(target=one_by_one.close, daemon=True).start()


class _OneByOne:
    """An iterator that two threads may use: a piece that nobody waits for is made all the same."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._lock, self.is_over = pieces, threading.Lock(), False

    def next(self) -> bytes | None:
        """The next piece, None after the last."""
        with self._lock:
            piece = None if self.is_over else next(self._pieces, None)
            self.is_over = piece is None
            return piece

    def close(self) -> None:
        """Ends it, when no piece is under way."""
        with self._lock:
            self.is_over = True
            if isinstance(self._pieces, Generator):
                self._pieces.close()
