"""Request bodies: read only for authorized senders, within quotas and deadlines."""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import BinaryIO

import anyio
import anyio.to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from batchai_magics.server.api_call import ApiCall, ApiError
from batchai_magics.server.http.request_limits import ServerLimits
from batchai_magics.server.http.request_telemetry import ServerMetrics

_SPOOL_AFTER_BYTES = 1 << 20  # larger bodies go to disk
_BODIES, _MEMORY, _DISK = "bodies", "memory", "disk"


@dataclass(frozen=True)
class BodySender:
    """The sender of a body: a user or storage credential, and the client address."""

    user: str
    address: str


@dataclass(frozen=True)
class ExpectedBody:
    """A body about to be read: its sender, its maximum size, and its spool file if it has one."""

    sender: BodySender
    max_bytes: int
    spool: BinaryIO | None = None


class RequestBodies:
    """The request bodies of a server. Not thread-safe: only for the event loop."""

    def __init__(self, limits: ServerLimits, metrics: ServerMetrics) -> None:
        self._limits, self._metrics = limits, metrics
        self._taken: Counter[str] = Counter()
        metrics.show_bodies(lambda name: self._taken[name])

    def reserve(self, call: ApiCall, upload: ExpectedBody) -> AbstractContextManager[None]:
        """Reserves memory or disk for a body until its request is answered.

        Raises:
            ApiError: 413 for a body that is too large, 503 if it would exceed a quota.
        """
        size = _declared_size(call, upload.max_bytes)
        limits, user = self._limits, upload.sender.user
        if upload.spool is None:
            quotas = {_MEMORY: limits.memory_bytes, f"{_MEMORY} of {user}": limits.memory_bytes_of_user}
        else:
            quotas = {_DISK: limits.disk_bytes, f"{_DISK} of {user}": limits.disk_bytes_of_user}
        return self._take(size, quotas)

    async def read(self, request: Request, upload: ExpectedBody) -> bytes:
        """The body; empty if it went to the spool file, which is rewound.

        Raises:
            ApiError: 503 with too many unfinished bodies, 408 for one that arrives too slowly.
        """
        if not _has_body(request.headers):
            return b""
        limits, sender = self._limits, upload.sender
        quotas = {
            _BODIES: limits.bodies,
            f"{_BODIES} of {sender.user}": limits.bodies_of_user,
            f"{_BODIES} from {sender.address}": limits.bodies_of_address,
        }
        with self._take(1, quotas):
            try:
                received = await self._received(request, upload)
            except TimeoutError:
                raise ApiError(
                    408, "RequestTimeout", "The body of the request did not come in time."
                ) from None
            except ClientDisconnect:  # never received by the client; for the access log
                raise ApiError(
                    400, "IncompleteBody", "The client has gone before its body was there."
                ) from None
        if upload.spool is None:
            return received
        upload.spool.write(received)
        upload.spool.seek(0)
        return b""

    async def _received(self, request: Request, upload: ExpectedBody) -> bytes:
        """The body, or the part not yet written to the spool file."""
        received, count = bytearray(), 0
        async for piece in _with_deadlines(request, self._limits):
            received += piece
            count += len(piece)
            self._metrics.count_body_bytes(len(piece))
            if count > upload.max_bytes:
                raise _too_large(upload.max_bytes)
            if upload.spool and len(received) > _SPOOL_AFTER_BYTES:
                await anyio.to_thread.run_sync(upload.spool.write, bytes(received))
                received.clear()
        return bytes(received)

    @contextlib.contextmanager
    def _take(self, amount: int, quotas: Mapping[str, int]) -> Iterator[None]:
        """Takes an amount from each quota, or raises and takes nothing."""
        if not amount:
            yield
            return
        if any(self._taken[name] + amount > limit for name, limit in quotas.items()):
            self._metrics.count_rejected()
            text = "The server has as many unfinished request bodies as it takes at once."
            raise ApiError(503, "ServerBusy", text)
        for name in quotas:
            self._taken[name] += amount
        try:
            yield
        finally:
            for name in quotas:
                self._taken[name] -= amount
                if not self._taken[name]:
                    del self._taken[name]  # who has gone takes no memory


class BodyReader:
    """Middleware: reads the body of the scope's `call` from its `sender`, and keeps it until the response.

    With `spooled_bytes`, a body that may be too large for memory can have so many, in a file.
    """

    def __init__(
        self, app: ASGIApp, bodies: RequestBodies, *, max_bytes: int, spooled_bytes: int = 0
    ) -> None:
        self._app, self._bodies = app, bodies
        self._max_bytes, self._spooled_bytes = max_bytes, spooled_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        call: ApiCall = scope["call"]
        with contextlib.ExitStack() as stack:
            upload = ExpectedBody(scope["sender"], self._max_bytes)
            if self._spooled_bytes and _may_be_large(scope, call):
                spool = stack.enter_context(tempfile.TemporaryFile())
                upload = ExpectedBody(scope["sender"], self._spooled_bytes, spool)
            stack.enter_context(self._bodies.reserve(call, upload))
            body = await self._bodies.read(Request(scope, receive), upload)
            scope["call"] = replace(call, body=body, spool=upload.spool)
            await self._app(scope, receive, send)


def _may_be_large(scope: Scope, call: ApiCall) -> bool:
    """Whether a request may have a body too large for memory: a blob, or a block of one."""
    is_block = b"comp=block&" in scope["query_string"] + b"&"
    return call.method == "PUT" and ("x-ms-blob-type" in call.headers or is_block)


async def _with_deadlines(request: Request, limits: ServerLimits) -> AsyncIterator[bytes]:
    """The chunks of a body; raises TimeoutError when they arrive too slowly."""
    started, count, is_over = anyio.current_time(), 0, False
    while not is_over:
        deadline = started + limits.body_s + count / limits.body_bytes_s
        with anyio.fail_after(min(limits.body_idle_s, deadline - anyio.current_time())):
            message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece, is_over = message.get("body", b""), not message.get("more_body", False)
        count += len(piece)
        yield piece


def _has_body(headers: Mapping[str, str]) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _declared_size(call: ApiCall, max_bytes: int) -> int:
    """The size to reserve: the declared length, or the maximum if it is unknown."""
    if not _has_body(call.headers):
        return 0
    if "transfer-encoding" in call.headers:
        return max_bytes
    length = call.headers["content-length"]
    if not length.isdigit() or int(length[:19]) > max_bytes:
        raise _too_large(max_bytes)
    return int(length)


def _too_large(max_bytes: int) -> Exception:
    message = f"The request body is larger than the {max_bytes} bytes that are taken here."
    return ApiError(413, "RequestBodyTooLarge", message)
