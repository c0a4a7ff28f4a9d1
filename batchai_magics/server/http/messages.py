"""A request as a Call, and an Answer as a response."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from batchai_magics.server.call import Answer, Call, User
from batchai_magics.server.http.threads import Threads

_ALWAYS = {
    "Cache-Control": "no-cache",
    "Pragma": "no-cache",
    "Expires": "-1",
    "X-Content-Type-Options": "nosniff",
}
JSON = "application/json; charset=utf-8"


def head_of(request: Request) -> Call:
    """The request without its body, of which nothing is read."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    return Call(
        method=request.method,
        path=raw_path(request.scope),
        query=_query(request.scope),
        headers=headers,
        origin=f"{request.url.scheme}://{headers.get('host', '')}",
        parts=dict(request.path_params),
        user=request.scope.get("user") or User("nobody"),
    )


def address_of(request: Request) -> str:
    """The address that a request's connection comes from."""
    return request.client.host if request.client else ""


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
