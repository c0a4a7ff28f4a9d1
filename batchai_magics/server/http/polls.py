"""Polls that all requests waiting for the same thing share."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Hashable

import anyio

from batchai_magics.server.call import Answer

Poll = Callable[[], Awaitable[Answer]]


class SharedPolls:
    """For each key at most one poll runs and one is scheduled; callers until its start get its result."""

    def __init__(self) -> None:
        self._scheduled: dict[Hashable, asyncio.Task[Answer]] = {}
        self._running: dict[Hashable, asyncio.Task[Answer]] = {}
        self._started: dict[Hashable, float] = {}

    async def next(self, key: Hashable, poll: Poll, every_s: float = 0.0) -> Answer:
        """The result of a poll that starts after this call, and `every_s` after the previous one started.

        Cancelling one caller does not affect the others.
        """
        task = self._scheduled.get(key)
        if task is None:
            task = asyncio.create_task(self._run(key, poll, every_s))
            self._scheduled[key] = task
        return await asyncio.shield(task)

    async def _run(self, key: Hashable, poll: Poll, every_s: float) -> Answer:
        try:
            if previous := self._running.get(key):
                await asyncio.wait({previous})
            due = self._started.get(key, -math.inf) + every_s
            await anyio.sleep(max(0.0, due - time.monotonic()))
        finally:
            task = self._scheduled.pop(key)  # a later caller needs a later poll
        self._running[key] = task
        self._started[key] = started = time.monotonic()
        try:
            return await poll()
        finally:
            del self._running[key]
            asyncio.get_running_loop().call_later(every_s, self._forget, key, started)

    def _forget(self, key: Hashable, started: float) -> None:
        if self._started.get(key) == started:
            del self._started[key]
