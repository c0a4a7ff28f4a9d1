"""Long polling: our own client sends `Prefer: wait=10` and gets its response as soon as something changes.

For resources, a change is a state other than `x-batchai-since` (an earlier response's `x-batchai-state`); for
an operation, its end; for a file read to its end, more bytes. Other clients never ask for it.
Requests for the same thing share polls, as do all watchers of one job's logs.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import Awaitable, Callable, Hashable, Iterator
from functools import partial

import anyio

from batchai_magics.backends.service.extension_wire import PREFER, SINCE, STATE
from batchai_magics.server.api_call import ApiCall, ApiResponse, content_digest
from batchai_magics.server.batchai.job_handlers import LogWatcher
from batchai_magics.server.http.request_limits import ServerLimits

Poll = Callable[[], Awaitable[ApiResponse]]


class SharedPolls:
    """For each key at most one poll runs and one is scheduled; callers until its start get its result."""

    def __init__(self) -> None:
        self._scheduled: dict[Hashable, asyncio.Task[ApiResponse]] = {}
        self._running: dict[Hashable, asyncio.Task[ApiResponse]] = {}
        self._started: dict[Hashable, float] = {}

    async def next(self, key: Hashable, poll: Poll, every_s: float = 0.0) -> ApiResponse:
        """The result of a poll that starts after this call, and `every_s` after the previous one started.

        Cancelling one caller does not affect the others.
        """
        task = self._scheduled.get(key)
        if task is None:
            task = asyncio.create_task(self._run(key, poll, every_s))
            self._scheduled[key] = task
        return await asyncio.shield(task)

    async def _run(self, key: Hashable, poll: Poll, every_s: float) -> ApiResponse:
        try:
            if previous := self._running.get(key):
                await asyncio.wait({previous})
            due = self._started.get(key, -math.inf) + every_s
            await anyio.sleep(max(0.0, due - anyio.current_time()))
        finally:
            task = self._scheduled.pop(key)  # a later caller needs a later poll
        self._running[key] = task
        self._started[key] = started = anyio.current_time()
        try:
            return await poll()
        finally:
            del self._running[key]
            asyncio.get_running_loop().call_later(every_s, self._forget, key, started)

    def _forget(self, key: Hashable, started: float) -> None:
        if self._started.get(key) == started:
            del self._started[key]


_WAIT = re.compile(r"(?:^|[,;\s])wait=(\d{1,4})(?:$|[,;\s])")
_RANGE_NOT_SATISFIABLE = 416
_MIN_INTERVAL_S = 0.1  # between polls of one waiter; grows with the number of waiters
_INTERVAL_PER_WAITER_S = 0.005
_SHARED_INTERVAL_PER_WAITER_S = 0.0015  # with a shared poll, waiters add only the cost of responses
_EXTENSION_PREFIX = "x-batchai-"

_MAX_REMEMBERED_POLLS = 500  # jobs whose last poll is kept for the next

PollAfter = Callable[[ApiResponse | None], Awaitable[ApiResponse]]  # receives the result of the previous poll


class LongPolling:
    """The waiting requests: the more there are, the longer the poll interval of each."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits, self._count = limits, 0
        self._watcher_count = 0  # at the last shared poll: clients that got its response soon ask again
        self._polls = SharedPolls()
        self._last_results: dict[Hashable, ApiResponse] = {}

    def is_requested(self, call: ApiCall) -> bool:
        """Whether the client wants to wait for a change."""
        return wait_s(call, self._limits) > 0

    async def wait_for_state(self, call: ApiCall, ask: Poll) -> ApiResponse:
        """The response about resources, once their state differs from the one the client knows."""
        if call.method not in ("GET", "POST") or not self.is_requested(call):
            return await ask()
        known = call.headers.get(SINCE, "")

        async def poll_state() -> ApiResponse:
            response = await ask()
            state = response.state or (content_digest(response.data) if call.method == "GET" else "")
            has_state = state and response.data is not None
            return response.with_headers(**{STATE: state}) if has_state else response

        def is_news(response: ApiResponse) -> bool:
            state = response.headers.get(STATE)
            return state != known if response.is_news is None else response.is_news

        key = _poll_key(call) if call.method == "GET" else object()
        return await self._until(call, key, poll_state, is_news)

    async def wait_for_bytes(self, call: ApiCall, ask: Poll) -> ApiResponse:
        """The response with bytes of a file, once there are any beyond its known end."""
        if call.method != "GET" or PREFER.lower() not in call.headers:
            return await ask()
        return await self._until(
            call, object(), ask, lambda response: response.status != _RANGE_NOT_SATISFIABLE
        )

    async def wait_for_watcher(
        self, call: ApiCall, watcher: LogWatcher, *, poll: PollAfter, ask: Poll
    ) -> ApiResponse:
        """The response, once a poll shared by all waiters at its path has news for this watcher."""
        key = (call.path.lower(), *sorted(call.query.items()))
        poll_once = partial(self._poll_after, key, poll)
        end, known = self._end(call), call.headers.get(SINCE)
        with self._counted():
            while True:
                count = max(self._count, self._watcher_count)
                interval_s = max(_MIN_INTERVAL_S, _SHARED_INTERVAL_PER_WAITER_S * count)
                result = await self._polls.next(key, poll_once, interval_s)
                if result.status >= 400:
                    return result
                known = watcher.first_state(result.data) if known is None else known
                is_changed = watcher.is_other_state(result.data, known)
                has_bytes = watcher.has_bytes(result.data)
                left_s = end - anyio.current_time()
                is_last = left_s < interval_s  # no further poll starts before the end
                if is_last and not (is_changed or has_bytes):
                    await anyio.sleep(max(0.0, left_s))
                if is_last or is_changed or has_bytes:
                    response = await self._polls.next(_poll_key(call), ask)
                    if is_last or is_changed or response.is_news is not False:
                        return self._applied(
                            call, response.with_headers(**{STATE: watcher.state(result.data)})
                        )

    async def _poll_after(self, key: Hashable, poll: PollAfter) -> ApiResponse:
        """A poll that receives the result of the previous one."""
        self._watcher_count = self._count
        response = await poll(self._last_results.pop(key, None))
        while len(self._last_results) >= _MAX_REMEMBERED_POLLS:
            del self._last_results[next(iter(self._last_results))]  # the least recently polled
        self._last_results[key] = response
        return response

    async def _until(
        self, call: ApiCall, key: Hashable, ask: Poll, is_news: Callable[[ApiResponse], bool]
    ) -> ApiResponse:
        end = self._end(call)
        with self._counted():
            response = await self._polls.next(key, ask, self._interval_s)
            while not is_news(response) and (left_s := end - anyio.current_time()) > 0:
                response = await self._polls.next(key, ask, min(left_s, self._interval_s))
        return self._applied(call, response)

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1

    @property
    def _interval_s(self) -> float:
        return max(_MIN_INTERVAL_S, _INTERVAL_PER_WAITER_S * self._count)

    def _end(self, call: ApiCall) -> float:
        return anyio.current_time() + wait_s(call, self._limits)

    def _applied(self, call: ApiCall, response: ApiResponse) -> ApiResponse:
        return response.with_headers(Preference_Applied=f"wait={wait_s(call, self._limits):g}")


def wait_s(call: ApiCall, limits: ServerLimits) -> float:
    """How long a request may wait: as it asks, within the server's limit."""
    match = _WAIT.search(call.headers.get(PREFER.lower(), ""))
    return min(float(match[1]), limits.wait_s) if match else 0.0


def _poll_key(call: ApiCall) -> Hashable:
    """The key of requests that one response serves."""
    extension_headers = (
        (name, value)
        for name, value in call.headers.items()
        if name.startswith(_EXTENSION_PREFIX) and name != SINCE
    )
    target = (call.method, call.origin, call.path, *sorted(call.query.items()))
    return (target, bytes(call.body), call.user, *sorted(extension_headers))
