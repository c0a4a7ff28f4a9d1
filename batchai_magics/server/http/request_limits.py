"""Limits on requests: configuration, the thread pool of handlers, and the middleware that enforces them."""

from __future__ import annotations

import asyncio
import enum
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from batchai_magics.server.http.request_telemetry import AccessLog, ServerMetrics


@dataclass(frozen=True)
class ServerLimits:
    """The limits of a server; defaults suit a team."""

    header_bytes: int = 32 << 10
    header_s: float = 20.0  # from a connection's first byte to the end of the headers
    body_bytes: int = 1 << 20  # of a JSON body
    range_bytes: int = 4 << 20  # of a file, in one request
    pack_bytes: int = 5 << 20  # of a pack of files: one of that size, or many, with their paths
    blob_bytes: int = 256 << 20  # of a blob, in one request
    body_s: float = 60.0  # deadline of a body, plus its size divided by `body_bytes_s`
    body_bytes_s: int = 64 << 10  # the lowest rate accepted for large bodies
    body_idle_s: float = 30.0  # between two chunks of a body
    bodies: int = 96  # unfinished request bodies at once
    bodies_of_user: int = 32
    bodies_of_address: int = 64
    memory_bytes: int = 128 << 20  # of all request bodies held in memory
    memory_bytes_of_user: int = 64 << 20
    disk_bytes: int = 4 << 30  # of all request bodies spooled to disk
    disk_bytes_of_user: int = 1 << 30
    send_s: float = 120.0  # to send a chunk of a response
    streams: int = 200  # concurrent requests; more get a 503
    threads: int = 32  # concurrent calls of the backend, and as many of storage
    wait_s: float = 30.0  # the longest long poll


T = TypeVar("T")


class ThreadPool:
    """Runs blocking calls in threads, a limited number at once."""

    def __init__(self, count: int) -> None:
        # half the cost of anyio's threads, which resume the whole request three times for each call
        self._executor = ThreadPoolExecutor(count, thread_name_prefix="batchai-request")

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`; it keeps running if the caller is cancelled."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    async def iterate(self, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        """The items of an iterator, each produced in a thread; closes it when the consumer stops."""
        iterator = _LockedIterator(pieces)
        try:
            while (piece := await self.run(iterator.next)) is not None:
                yield piece
        finally:  # not awaited: the last chunk may still be in progress
            if not iterator.is_over:
                threading.Thread(target=iterator.close, daemon=True).start()


class _LockedIterator:
    """An iterator shared by two threads: an abandoned `next` still completes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._lock, self.is_over = pieces, threading.Lock(), False

    def next(self) -> bytes | None:
        """The next chunk, None after the last."""
        with self._lock:
            piece = None if self.is_over else next(self._pieces, None)
            self.is_over = piece is None
            return piece

    def close(self) -> None:
        """Stops the iteration once no chunk is in progress."""
        with self._lock:
            self.is_over = True
            if isinstance(self._pieces, Generator):
                self._pieces.close()


_BUSY = (
    b'{"error": {"code": "ServerBusy", "message": "The server has as many requests as it takes at once."}}'
)


class RequestGuard:
    """ASGI middleware: limits concurrent requests, writes the access log, counts metrics."""

    def __init__(
        self, app: ASGIApp, limits: ServerLimits, log: AccessLog | None, metrics: ServerMetrics
    ) -> None:
        self._app, self._limits, self._log, self._metrics = app, limits, log, metrics
        self._count = 0
        metrics.open.set_function(lambda: self._count)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or responds 503 above the limit."""
        is_health_check = str(scope["path"]).strip("/").lower() == "healthz"
        if self._count >= self._limits.streams and not is_health_check:
            headers = [(b"content-type", b"application/json; charset=utf-8"), (b"retry-after", b"1")]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": _BUSY})
            self._metrics.rejected.inc()
            return
        self._count += 1
        status = 499  # until a response starts
        started = time.perf_counter()

        def send_noting_status(message: Message) -> Awaitable[None]:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            return send(message)

        try:
            await self._app(scope, receive, send_noting_status)
        finally:
            self._count -= 1
            self._record(scope, status, time.perf_counter() - started)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        self._metrics.count_response(scope["method"], status, seconds)
        if self._log and not scope["path"].startswith("/msi/"):
            user, client = scope.get("user"), scope.get("client")
            more = {"user": getattr(user, "name", ""), "client": client[0] if client else ""}
            more["seconds"] = round(seconds, 4)
            is_read = scope.get("is_read", False)
            self._log.record(scope["method"], scope["path"], status, more, is_read=is_read)


class _Timer(enum.Enum):
    """What a connection waits for, each for a limited time."""

    HEADERS = "the headers of the next request"
    REST = "the rest of a body whose request is answered"
    READER = "the client that reads a response"


class LimitedProtocol(HttpToolsProtocol):  # type: ignore[misc, unused-ignore]  # Any without uvicorn
    """Closes a connection whose headers, or the rest of a rejected body, are too large or arrive too slowly.

    The parser has no limits of its own: it keeps a header, or a line between two chunks of a body, until its
    end. A connection whose client stops reading is aborted: closing it would wait for the client.
    """

    def __init__(
        self, *arguments: Any, header_bytes: int, header_s: float, send_s: float, **more: Any
    ) -> None:
        super().__init__(*arguments, **more)
        self._header_bytes, self._header_s, self._send_s = header_bytes, header_s, send_s
        self._unparsed_bytes = 0  # since the last complete part of a request
        self._is_in_body = False
        self._timers: dict[_Timer, asyncio.TimerHandle] = {}

    def connection_made(self, transport: Any) -> None:
        """Starts the timer for the first request."""
        super().connection_made(transport)
        self._start(_Timer.HEADERS, self._header_s, self._close)

    def data_received(self, data: bytes) -> None:
        """Stops the timer once headers are complete."""
        self._unparsed_bytes += len(data)
        super().data_received(data)
        if self._unparsed_bytes > self._header_bytes and not self.transport.is_closing():
            if self._is_in_body:
                self.transport.close()
            else:
                self.send_400_response("The headers of the request are too large.")
        if self._is_in_body or not (self.cycle is None or self.cycle.response_complete):
            self._stop(_Timer.HEADERS)
        else:
            self._start(_Timer.HEADERS, self._header_s, self._close)
        if not self._is_in_body:
            self._stop(_Timer.REST)

    def on_headers_complete(self) -> None:
        """Starts the request."""
        self._unparsed_bytes, self._is_in_body = 0, True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Adds a piece of the body."""
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Ends the body."""
        self._unparsed_bytes, self._is_in_body = 0, False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Starts a timer for discarding the rest of an unread body.

        Closing at once could reset the connection before the client has read the error.
        """
        super().on_response_complete()
        if self._is_in_body:
            self._start(_Timer.REST, self._header_s, self._close)

    def pause_writing(self) -> None:
        """Starts the timer of a client that reads more slowly than the server sends."""
        super().pause_writing()
        self._start(_Timer.READER, self._send_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Stops that timer once the client has read."""
        super().resume_writing()
        self._stop(_Timer.READER)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops all timers."""
        for timer in _Timer:
            self._stop(timer)
        super().connection_lost(exc)

    def _start(self, timer: _Timer, delay_s: float, on_timeout: Callable[[], None]) -> None:
        """Starts a timer unless it runs."""
        if timer not in self._timers:
            self._timers[timer] = self.loop.call_later(delay_s, on_timeout)

    def _stop(self, timer: _Timer) -> None:
        if handle := self._timers.pop(timer, None):
            handle.cancel()

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
