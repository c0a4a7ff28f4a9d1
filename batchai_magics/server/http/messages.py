"""A request as a Call, and an Answer as a response."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, BinaryIO
from urllib.parse import unquote

import anyio
import anyio.to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from batchai_magics.server.call import Answer, Call, User
from batchai_magics.server.errors import refusal
from batchai_magics.server.http.limits import Limits
from batchai_magics.server.http.threads import Threads

_ALWAYS = {
    "Cache-Control": "no-cache",
    "Pragma": "no-cache",
    "Expires": "-1",
    "X-Content-Type-Options": "nosniff",
}
_SPOOLED = 1 << 20  # of a body before it goes to the disk
JSON = "application/json; charset=utf-8"


async def call_of(
    request: Request, limits: Limits, *, most_bytes: int, spool: BinaryIO | None = None
) -> Call:
    """The request with its body, which has to come in time and not to be too large.

    With a `spool` the body goes there.
    """
    headers = {name.lower(): value for name, value in request.headers.items()}
    body = await _body(request, limits, most_bytes, spool)
    return Call(
        method=request.method,
        path=raw_path(request.scope),
        query=_query(request.scope),
        headers=headers,
        body=body,
        spool=spool,
        origin=f"{request.url.scheme}://{headers.get('host', '')}",
        parts=dict(request.path_params),
        user=request.scope.get("user") or User("nobody"),
    )


def raw_path(scope: Mapping[str, Any]) -> str:
    """The path as it came, with what is percent-encoded."""
    return (
        bytes(scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0].decode("ascii", "replace")
    )


def response_of(answer: Answer, threads: Threads) -> Response:
    """The response, which names its request."""
    headers = {**_ALWAYS, **answer.headers, "request-id": str(uuid.uuid4())}
    headers["x-ms-request-id"] = headers["request-id"]
    if answer.pieces is not None:
        return StreamingResponse(threads.each(answer.pieces), status_code=answer.status, headers=headers)
    if answer.data is not None:
        body = json.dumps(answer.data, ensure_ascii=False).encode()
        return Response(body, status_code=answer.status, headers={**headers, "Content-Type": JSON})
    return Response(answer.body or b"", status_code=answer.status, headers=headers)


def _query(scope: Mapping[str, Any]) -> dict[str, str]:
    """What the query says. A `+` is a `+` there: signatures have them."""
    text = scope.get("query_string", b"").decode("ascii", "replace")
    pairs = (pair.partition("=") for pair in text.split("&") if pair)
    return {unquote(name).lower(): unquote(value) for name, _, value in pairs}


async def _body(request: Request, limits: Limits, most_bytes: int, spool: BinaryIO | None) -> bytes:
    length = request.headers.get("content-length", "0")
    if length == "0" and "transfer-encoding" not in request.headers:
        return b""
    if not length.isdigit() or int(length) > most_bytes:
        raise _too_large(most_bytes)
    try:
        with anyio.fail_after(limits.body_s):
            received = await _received(request, most_bytes, spool)
    except TimeoutError:
        raise refusal(408, "RequestTimeout", "The body of the request did not come in time.") from None
    except ClientDisconnect:  # nobody reads this; the access log has it
        raise refusal(400, "IncompleteBody", "The client has gone before its body was there.") from None
    if spool is None:
        return received
    spool.write(received)
    spool.seek(0)
    return b""


async def _received(request: Request, most_bytes: int, spool: BinaryIO | None) -> bytes:
    """The body, or what of it has not gone to the spool yet."""
    received, count = bytearray(), 0
    async for piece in request.stream():
        received += piece
        count += len(piece)
        if count > most_bytes:
            raise _too_large(most_bytes)
        if spool and len(received) > _SPOOLED:
            await anyio.to_thread.run_sync(spool.write, bytes(received))
            received.clear()
    return bytes(received)


def _too_large(most_bytes: int) -> Exception:
    message = f"The request body is larger than the {most_bytes} bytes that are taken here."
    return refusal(413, "RequestBodyTooLarge", message)
