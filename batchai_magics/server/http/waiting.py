"""Waiting for news: our own client says `Prefer: wait=10`, and is answered when there is some.

Of resources, news is any other state than the one it names (`x-batchai-since`, which an answer gave as
`x-batchai-state`); of an operation, its end; of a file that was read to its end, a byte more. No other client
asks so. Requests for the same thing share their polls, as do all who watch the logs of one job.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator
from functools import partial

from batchai_magics.backends.service.dialect.headers import PREFER, SINCE, STATE
from batchai_magics.server.call import Answer, Call, digest_of
from batchai_magics.server.http.limits import Limits
from batchai_magics.server.http.polls import Poll, SharedPolls
from batchai_magics.server.service import Watcher

_WAIT = re.compile(r"(?:^|[,;\s])wait=(\d{1,4})(?:$|[,;\s])")
_AT_END = 416
_BETWEEN_S = 0.1  # two looks of one who waits; with many who wait each looks more rarely
_EACH_S = 0.005
_EACH_SHARED_S = 0.001  # where one poll serves many, only their answers cost more
_OWN = "x-batchai-"

_MOST_POLLED = 500  # jobs whose last poll is kept for the next one

PollAfter = Callable[[Answer | None], Awaitable[Answer]]  # it gets the result of the previous poll


class Waiting:
    """Those who wait: the more they are, the more rarely each looks."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._count = limits, 0
        self._polls = SharedPolls()
        self._polled: dict[Hashable, Answer] = {}

    def is_wanted(self, call: Call) -> bool:
        """Whether the client would rather wait than be answered without news."""
        return wait_s(call, self._limits) > 0

    async def for_state(self, call: Call, ask: Poll) -> Answer:
        """The answer about resources, when their state is another one than the client knows."""
        if call.method not in ("GET", "POST") or not self.is_wanted(call):
            return await ask()
        known = call.headers.get(SINCE, "")

        async def look() -> Answer:
            answer = await ask()
            state = answer.state or (digest_of(answer.data) if call.method == "GET" else "")
            is_told = state and answer.data is not None
            return answer.with_headers(**{STATE: state}) if is_told else answer

        def is_news(answer: Answer) -> bool:
            state = answer.headers.get(STATE)
            return state != known if answer.is_news is None else answer.is_news

        key = _identity(call) if call.method == "GET" else object()
        return await self._until(call, key, look, is_news)

    async def for_bytes(self, call: Call, ask: Poll) -> Answer:
        """The answer with bytes of a file, when there are any behind its end."""
        if call.method != "GET" or PREFER.lower() not in call.headers:
            return await ask()
        return await self._until(call, object(), ask, lambda answer: answer.status != _AT_END)

    async def for_news(self, call: Call, watcher: Watcher, *, poll: PollAfter, ask: Poll) -> Answer:
        """The answer, when a poll that all who wait at its path share has news for this watcher."""
        place = (call.path.lower(), *sorted(call.query.items()))
        poll_once = partial(self._poll_after, place, poll)
        end, known = self._end(call), call.headers.get(SINCE)
        with self._one_more():
            while True:
                left_s = end - time.monotonic()
                polled = await self._polls.next(place, poll_once, min(left_s, self._shared_between_s))
                if polled.status >= 400:
                    return polled
                known = watcher.first_state(polled.data) if known is None else known
                is_due = left_s <= 0 or watcher.is_other_state(polled.data, known)
                if is_due or watcher.has_bytes(polled.data):
                    answer = await self._polls.next(_identity(call), ask)
                    if is_due or answer.is_news is not False:
                        return self._applied(call, answer.with_headers(**{STATE: watcher.state(polled.data)}))

    async def _poll_after(self, place: Hashable, poll: PollAfter) -> Answer:
        """A poll that gets the result of the previous one."""
        answer = await poll(self._polled.pop(place, None))
        while len(self._polled) >= _MOST_POLLED:
            del self._polled[next(iter(self._polled))]  # the one polled longest ago
        self._polled[place] = answer
        return answer

    async def _until(self, call: Call, key: Hashable, ask: Poll, is_news: Callable[[Answer], bool]) -> Answer:
        end = self._end(call)
        with self._one_more():
            answer = await self._polls.next(key, ask, self._between_s)
            while not is_news(answer) and (left_s := end - time.monotonic()) > 0:
                answer = await self._polls.next(key, ask, min(left_s, self._between_s))
        return self._applied(call, answer)

    @contextlib.contextmanager
    def _one_more(self) -> Iterator[None]:
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1

    @property
    def _between_s(self) -> float:
        return max(_BETWEEN_S, _EACH_S * self._count)

    @property
    def _shared_between_s(self) -> float:
        return max(_BETWEEN_S, _EACH_SHARED_S * self._count)

    def _end(self, call: Call) -> float:
        return time.monotonic() + wait_s(call, self._limits)

    def _applied(self, call: Call, answer: Answer) -> Answer:
        return answer.with_headers(Preference_Applied=f"wait={wait_s(call, self._limits):g}")


def wait_s(call: Call, limits: Limits) -> float:
    """How long a request may wait, as it says itself and the server allows."""
    match = _WAIT.search(call.headers.get(PREFER.lower(), ""))
    return min(float(match[1]), limits.wait_s) if match else 0.0


def _identity(call: Call) -> Hashable:
    """What two requests have in common that the same answer serves."""
    own = ((name, value) for name, value in call.headers.items() if name.startswith(_OWN) and name != SINCE)
    asked = (call.method, call.origin, call.path, *sorted(call.query.items()))
    return (asked, call.body, call.user, *sorted(own))
