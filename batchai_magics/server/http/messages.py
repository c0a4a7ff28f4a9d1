"""A request as a Call, and an Answer as a response."""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from batchai_magics.server.call import Answer, Call, User, query_of, text_in_url
from batchai_magics.server.errors import DEFECT, body_of, refusal
from batchai_magics.server.http.threads import Threads

LOG = logging.getLogger("batchai.server")
_HALF = re.compile("[\ud800-\udfff]")
_ALWAYS = {"X-Content-Type-Options": "nosniff"}
_OF_RESOURCES = {"Cache-Control": "no-cache", "Pragma": "no-cache", "Expires": "-1"}
JSON = "application/json; charset=utf-8"


def check_address(scope: Mapping[str, Any]) -> None:
    """Raises a refusal for a path or a query that is no text; `head_of` needs one that is."""
    text_in_url(_raw_path(scope), "The path of the request")
    query_of(bytes(scope.get("query_string", b"")))


def head_of(request: Request) -> Call:
    """The request without its body, of which nothing is read."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    return Call(
        method=request.method,
        path=raw_path(request.scope),
        query=query_of(bytes(request.scope.get("query_string", b""))),
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
    return _raw_path(scope).decode("ascii", "replace")


def _raw_path(scope: Mapping[str, Any]) -> bytes:
    return bytes(scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]


def response_of(answer: Answer, threads: Threads, *, is_file: bool = False) -> Response:
    """The response, which names its request; one that cannot be encoded is told as a defect of ours.

    How long a file may be cached is its own property.
    """
    always = _ALWAYS if is_file else {**_ALWAYS, **_OF_RESOURCES}
    try:
        return _response(answer, threads, always)
    except (ValueError, TypeError):  # UnicodeError is a ValueError
        number = uuid.uuid4().hex[:12]
        LOG.exception("defect %s: an answer that cannot be encoded", number)
        text = f"The server could not encode its answer. Its log says why, under {number}."
        return _response(Answer(500, body_of(refusal(500, DEFECT, text))), threads, always)


def _response(answer: Answer, threads: Threads, always: Mapping[str, str]) -> Response:
    headers = {**always, **answer.headers, "request-id": str(uuid.uuid4())}
    headers["x-ms-request-id"] = headers["request-id"]
    if answer.pieces is not None:
        return StreamingResponse(threads.each(answer.pieces), status_code=answer.status, headers=headers)
    if answer.data is not None:
        headers["Content-Type"] = JSON
        return Response(_json(answer.data), status_code=answer.status, headers=headers)
    return Response(answer.body or b"", status_code=answer.status, headers=headers)


def _json(data: Any) -> bytes:
    """JSON that every client can read: halves of characters, which older versions stored, are replaced."""
    text = json.dumps(data, ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _HALF.sub("\ufffd", text).encode()
