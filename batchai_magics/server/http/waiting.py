"""Waiting for news: our own client says `Prefer: wait=10`, and is answered when there is some.

Of resources, news is any other state than the one it names (`x-batchai-since`, which an answer gave as
`x-batchai-state`); of an operation, its end; of a file that was read to its end, a byte more. No other client
asks so.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable

import anyio

from batchai_magics.backends.service.dialect.headers import PREFER, SINCE, STATE
from batchai_magics.server.call import Answer, Call, digest_of
from batchai_magics.server.http.limits import Limits

_WAIT = re.compile(r"(?:^|[,;\s])wait=(\d{1,4})(?:$|[,;\s])")
_AT_END = 416
_BETWEEN_S = 0.1  # two looks of one who waits; with many who wait each looks more rarely
_EACH_S = 0.005


class Waiting:
    """Those who wait: the more they are, the more rarely each looks."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._count = limits, 0

    async def for_state(self, call: Call, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer about resources, when their state is another one than the client knows."""
        if call.method not in ("GET", "POST") or not wait_s(call, self._limits):
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

        return await self._until(call, look, is_news)

    async def for_bytes(self, call: Call, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer with bytes of a file, when there are any behind its end."""
        if call.method != "GET" or PREFER.lower() not in call.headers:
            return await ask()
        return await self._until(call, ask, lambda answer: answer.status != _AT_END)

    async def _until(
        self, call: Call, ask: Callable[[], Awaitable[Answer]], is_news: Callable[[Answer], bool]
    ) -> Answer:
        seconds = wait_s(call, self._limits)
        end = time.monotonic() + seconds
        self._count += 1
        try:
            answer = await ask()
            while not is_news(answer) and (left := end - time.monotonic()) > 0:
                await anyio.sleep(min(left, max(_BETWEEN_S, _EACH_S * self._count)))
                answer = await ask()
        finally:
            self._count -= 1
        return answer.with_headers(Preference_Applied=f"wait={seconds:g}")


def wait_s(call: Call, limits: Limits) -> float:
    """How long a request may wait, as it says itself and the server allows."""
    match = _WAIT.search(call.headers.get(PREFER.lower(), ""))
    return min(float(match[1]), limits.wait_s) if match else 0.0
