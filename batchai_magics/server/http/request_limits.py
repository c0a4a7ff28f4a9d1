"""Limits on requests: configuration, the thread pool of handlers, and the middleware that enforces them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from batchai_magics.server.access.access_log import AccessLog
from batchai_magics.server.http.server_metrics import ServerMetrics


@dataclass(frozen=True)
class ServerLimits:
    """The bounds of a server; the defaults are for a team."""

    header_bytes: int = 32 << 10
    header_s: float = 20.0  # from a connection's first byte to the end of a request's headers
    body_bytes: int = 1 << 20  # of a description
    range_bytes: int = 4 << 20  # of a file, in one request
    blob_bytes: int = 256 << 20  # of a blob, in one request
    body_s: float = 60.0  # for a body to come, and for a long one as much more as `body_bytes_s` gives it
    body_bytes_s: int = 64 << 10  # the lowest rate at which a long body may come
    body_idle_s: float = 30.0  # between two pieces of a body
    bodies: int = 96  # unfinished request bodies at once
    bodies_of_user: int = 32
    bodies_of_address: int = 64
    memory_bytes: int = 128 << 20  # of all request bodies that are held in memory
    memory_bytes_of_user: int = 64 << 20
    disk_bytes: int = 4 << 30  # of all request bodies that are spooled to disk
    disk_bytes_of_user: int = 1 << 30
    send_s: float = 120.0  # for a piece of an answer to go
    streams: int = 200  # requests at once; those over it are told to come again
    threads: int = 32  # calls of the backend at once, and as many of storage
    wait_s: float = 30.0  # the longest that a request may wait for news


T = TypeVar("T")


class ThreadPool:
    """So many calls at once; the others wait for their turn."""

    def __init__(self, count: int) -> None:
        self._limiter = anyio.CapacityLimiter(count)

    async def run(self, work: Callable[[], T]) -> T:
        """What the work gives or raises; it is not stopped when nobody waits for it any more."""
        return await anyio.to_thread.run_sync(work, limiter=self._limiter, abandon_on_cancel=True)

    async def iterate(self, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        """The pieces of an iterator, each made in a thread; it is closed when nobody wants them any more."""
        one_by_one = _LockedIterator(pieces)
        try:
            while (piece := await self.run(one_by_one.next)) is not None:
                yield piece
        finally:  # the loop does not wait for it: the last piece may still be under way
            if not one_by_one.is_over:
                threading.Thread(target=one_by_one.close, daemon=True).start()


class _LockedIterator:
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


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

_BUSY = (
    b'{"error": {"code": "ServerBusy", "message": "The server has as many requests as it takes at once."}}'
)


class RequestGuard:
    """An application with its bounds, its access log and its numbers."""

    def __init__(
        self, app: AsgiApp, limits: ServerLimits, log: AccessLog | None, metrics: ServerMetrics
    ) -> None:
        self._app, self._limits, self._log, self._metrics = app, limits, log, metrics
        self._count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request through, unless there are too many."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._count >= self._limits.streams and not _is_probe(scope):
            await _send_busy(send)
            self._metrics.count_rejected()
            return
        self._count += 1
        patience = anyio.CancelScope()
        seen = _ResponseSender(send, self._limits.send_s, patience)
        started = time.perf_counter()
        try:
            with self._metrics.in_progress(), patience:
                await self._app(scope, receive, seen.send)
        finally:
            self._count -= 1
            self._record(scope, seen.status, time.perf_counter() - started)

    def close(self) -> None:
        """Writes what is still to be written."""
        if self._log:
            self._log.close()

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        self._metrics.count_response(scope["method"], status, seconds)
        if self._log and not scope["path"].startswith("/msi/"):
            user, client = scope.get("user"), scope.get("client")
            more = {"user": getattr(user, "name", ""), "client": client[0] if client else ""}
            self._log.record(scope["method"], scope["path"], status, {**more, "seconds": round(seconds, 4)})


class _ResponseSender:
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


async def _send_busy(send: Send) -> None:
    headers = [(b"content-type", b"application/json; charset=utf-8"), (b"retry-after", b"1")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": _BUSY})
