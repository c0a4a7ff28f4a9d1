"""Request bodies: read only for authorized senders, within quotas and deadlines."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from typing import BinaryIO, cast

import anyio
import anyio.to_thread
from starlette.requests import ClientDisconnect, Request

from batchai_magics.server.api_call import ApiCall, ApiError
from batchai_magics.server.http.request_limits import ServerLimits
from batchai_magics.server.http.request_telemetry import ServerMetrics

_SPOOL_AFTER_BYTES = 1 << 20  # larger bodies go to disk
_BODIES, _MEMORY, _DISK = "bodies", "memory", "disk"


class RequestBodies:
    """The request bodies of a server. Not thread-safe: only for the event loop."""

    def __init__(self, limits: ServerLimits, metrics: ServerMetrics) -> None:
        self._limits, self._metrics = limits, metrics
        self._used: Counter[str] = Counter()
        metrics.unfinished_bodies.set_function(lambda: self._used[_BODIES])
        metrics.held_bytes.labels(_MEMORY).set_function(lambda: self._used[_MEMORY])
        metrics.held_bytes.labels(_DISK).set_function(lambda: self._used[_DISK])

    @contextlib.asynccontextmanager
    async def received(
        self, request: Request, call: ApiCall, user: str, *, max_bytes: int, spooled_bytes: int = 0
    ) -> AsyncIterator[ApiCall]:
        """The call with its body, for which memory or disk space is reserved until the block ends.

        `spooled_bytes` is the limit of bodies that may be spooled to a file, those of blobs. `user` is
        the name or the storage credential of the sender. Raises ApiError (413) for a body that is too large,
        503 if it would exceed a quota or with too many unfinished bodies, 408 for one that arrives too
        slowly.
        """
        with contextlib.ExitStack() as stack:
            spool = None
            has_blob = "x-ms-blob-type" in call.headers or call.query.get("comp") == "block"
            if spooled_bytes and call.method == "PUT" and has_blob:
                max_bytes, spool = spooled_bytes, stack.enter_context(tempfile.TemporaryFile())
            size_bytes = _declared_size(call, max_bytes)
            limits = self._limits
            quotas = {_MEMORY: limits.memory_bytes, f"{_MEMORY} of {user}": limits.memory_bytes_of_user}
            if spool is not None:
                quotas = {_DISK: limits.disk_bytes, f"{_DISK} of {user}": limits.disk_bytes_of_user}
            stack.enter_context(self._reserve(size_bytes, quotas))
            body = await self._read(request, user, max_bytes, spool) if size_bytes else b""
            yield replace(call, body=body, spool=spool)

    async def _read(self, request: Request, user: str, max_bytes: int, spool: BinaryIO | None) -> bytes:
        """The body; empty if it went to the spool file, which is rewound."""
        limits = self._limits
        quotas = {
            _BODIES: limits.bodies,
            f"{_BODIES} of {user}": limits.bodies_of_user,
            f"{_BODIES} from {client_address(request)}": limits.bodies_of_address,
        }
        with self._reserve(1, quotas):
            try:
                received = await self._receive_chunks(request, max_bytes, spool)
            except TimeoutError:
                raise ApiError(
                    408, "RequestTimeout", "The body of the request did not come in time."
                ) from None
            except ClientDisconnect:  # never received by the client; for the access log
                raise ApiError(
                    400, "IncompleteBody", "The client has gone before its body was there."
                ) from None
        if spool is None:
            return received
        spool.write(received)
        spool.seek(0)
        return b""

    async def _receive_chunks(self, request: Request, max_bytes: int, spool: BinaryIO | None) -> bytes:
        """The body, or the part not yet written to the spool file; TimeoutError if it arrives too slowly."""
        limits, received, count, is_over = self._limits, bytearray(), 0, False
        started = anyio.current_time()
        with anyio.fail_after(min(limits.body_idle_s, limits.body_s)) as scope:
            while not is_over:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                piece, is_over = message.get("body", b""), not message.get("more_body", False)
                received += piece
                count += len(piece)
                self._metrics.received_bytes.inc(len(piece))
                if count > max_bytes:
                    raise _too_large(max_bytes)
                if spool and len(received) > _SPOOL_AFTER_BYTES:
                    scope.deadline = math.inf  # the limit is for the client, not for the disk
                    await anyio.to_thread.run_sync(spool.write, received)
                    received = bytearray()
                deadline = started + limits.body_s + count / limits.body_bytes_s
                scope.deadline = min(anyio.current_time() + limits.body_idle_s, deadline)
        return cast("bytes", received)  # not copied: that takes as long as receiving a range of a file

    @contextlib.contextmanager
    def _reserve(self, amount: int, quotas: Mapping[str, int]) -> Iterator[None]:
        """Reserves an amount of each quota until the block ends; ApiError (503) if one is exceeded."""
        if not amount:
            yield
            return
        if any(self._used[name] + amount > limit for name, limit in quotas.items()):
            self._metrics.rejected.inc()
            text = "The server has as many unfinished request bodies as it takes at once."
            raise ApiError(503, "ServerBusy", text)
        for name in quotas:
            self._used[name] += amount
        try:
            yield
        finally:
            for name in quotas:
                self._used[name] -= amount
                if not self._used[name]:
                    del self._used[name]  # former clients use no memory


def client_address(request: Request) -> str:
    """The address of the connection's client; empty if it is unknown."""
    return request.client.host if request.client else ""


def _declared_size(call: ApiCall, max_bytes: int) -> int:
    """The size to reserve: the declared length, or the maximum if it is unknown."""
    if "transfer-encoding" in call.headers:
        return max_bytes
    length = call.headers.get("content-length", "0")
    if not length.isdigit() or int(length[:19]) > max_bytes:
        raise _too_large(max_bytes)
    return int(length)


def _too_large(max_bytes: int) -> Exception:
    message = f"The request body is larger than the {max_bytes} bytes that are taken here."
    return ApiError(413, "RequestBodyTooLarge", message)
