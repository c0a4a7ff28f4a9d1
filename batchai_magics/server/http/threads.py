"""Handlers run in threads: a backend's verbs are synchronous, and the loop must not wait for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
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
        """The pieces of an iterator, each made in a thread."""
        while (piece := await self.run(lambda: next(pieces, None))) is not None:
            yield piece
