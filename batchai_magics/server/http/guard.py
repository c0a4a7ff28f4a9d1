"""What every request goes through first: so many at once, each in time, each written down."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio

from batchai_magics.server.access.log import AccessLog
from batchai_magics.server.http.limits import Limits
from batchai_magics.server.http.metrics import Metrics

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

_BUSY = (
    b'{"error": {"code": "ServerBusy", "message": "The server has as many requests as it takes at once."}}'
)


class Guard:
    """An application with its bounds, its access log and its numbers."""

    def __init__(self, app: AsgiApp, limits: Limits, log: AccessLog | None, metrics: Metrics) -> None:
        self._app, self._limits, self._log, self._metrics = app, limits, log, metrics
        self._count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request through, unless there are too many."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._count >= self._limits.streams and not _is_probe(scope):
            await _refuse(send)
            self._metrics.refused()
            return
        self._count += 1
        patience = anyio.CancelScope()
        seen = _Seen(send, self._limits.send_s, patience)
        started = time.perf_counter()
        try:
            with self._metrics.under_way(), patience:
                await self._app(scope, receive, seen.send)
        finally:
            self._count -= 1
            self._note(scope, seen.status, time.perf_counter() - started)

    def close(self) -> None:
        """Writes what is still to be written."""
        if self._log:
            self._log.close()

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        self._metrics.answered(scope["method"], status, seconds)
        if self._log and not scope["path"].startswith("/msi/"):
            user, client = scope.get("user"), scope.get("client")
            more = {"user": getattr(user, "name", ""), "client": client[0] if client else ""}
            self._log.note(scope["method"], scope["path"], status, {**more, "seconds": round(seconds, 4)})


class _Seen:
    """An answer on its way: its status, and that whoever reads it keeps reading.

    When nobody does, all that makes it ends: uvicorn closes a connection whose answer has no end.
    """

    def __init__(self, send: Send, most_s: float, patience: anyio.CancelScope) -> None:
        self._send, self._most_s, self._patience = send, most_s, patience
        self.status = 499  # until an answer begins

    async def send(self, message: Message) -> None:
        """Sends a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self._patience.deadline = anyio.current_time() + self._most_s
        await self._send(message)
        self._patience.deadline = math.inf


def _is_probe(scope: Scope) -> bool:
    """Whether it is asked if the server lives, which is always answered."""
    return str(scope["path"]).strip("/").lower() == "healthz"


async def _refuse(send: Send) -> None:
    headers = [(b"content-type", b"application/json; charset=utf-8"), (b"retry-after", b"1")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": _BUSY})
