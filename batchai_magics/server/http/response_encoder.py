"""`ApiResponse`s as ASGI messages: inner applications send them, and middleware encodes them as HTTP.

An inner application sends one message of the type RESPONSE, so that middleware can read and replace what it
holds. `ResponseEncoder` encodes it once the application has returned: while it is sent, which may take long,
nothing is reserved for the request any more.
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from batchai_magics.backends.service.extension_wire import OWN_CLIENT
from batchai_magics.server.api_call import ApiResponse
from batchai_magics.server.api_errors import INTERNAL_ERROR, ApiError, error_body
from batchai_magics.server.http.request_limits import ThreadPool
from batchai_magics.server.published_api import is_extension, published_response

LOG = logging.getLogger("batchai.server")
RESPONSE = "batchai.response"
JSON = "application/json; charset=utf-8"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_COMMON_HEADERS = {"X-Content-Type-Options": "nosniff"}
_NO_CACHE_HEADERS = {"Cache-Control": "no-cache", "Pragma": "no-cache", "Expires": "-1"}


async def send_response(send: Send, response: ApiResponse) -> None:
    """Sends the response of an inner application."""
    await send({"type": RESPONSE, "response": response})


async def response_of(app: ASGIApp, scope: Scope, receive: Receive) -> ApiResponse:
    """The response that an inner application sends."""
    responses: list[ApiResponse] = []

    async def collect(message: Message) -> None:
        responses.append(message["response"])

    await app(scope, receive, collect)
    return responses[-1]


class ResponseEncoder:
    """Middleware: encodes the response of an inner application; other messages pass unchanged.

    Files have their own caching headers, resources (without `is_file`) are never cached.
    """

    def __init__(self, app: ASGIApp, threads: ThreadPool, *, is_file: bool = False) -> None:
        self._app, self._threads, self._is_file = app, threads, is_file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        responses: list[ApiResponse] = []

        async def collect(message: Message) -> None:
            if message["type"] == RESPONSE:
                responses.append(message["response"])
            else:
                await send(message)

        await self._app(scope, receive, collect)
        for response in responses:
            encoded = to_starlette(response, self._threads, is_file=self._is_file)
            await encoded(scope, receive, send)


class ExtensionFilter:
    """Middleware: responses lose our extensions, unless our own client asks or the path is its own."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self._app, self._is_extension = app, is_extension(path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if self._is_extension or OWN_CLIENT in Headers(scope=scope):
            await self._app(scope, receive, send)
            return
        await send_response(send, published_response(await response_of(self._app, scope, receive)))


def to_starlette(response: ApiResponse, threads: ThreadPool, *, is_file: bool = False) -> Response:
    """The Starlette response with a request id; one that cannot be encoded becomes a 500."""
    always = _COMMON_HEADERS if is_file else {**_COMMON_HEADERS, **_NO_CACHE_HEADERS}
    try:
        return _starlette_response(response, threads, always)
    except (ValueError, TypeError):  # UnicodeError is a ValueError
        number = uuid.uuid4().hex[:12]
        LOG.exception("defect %s: an answer that cannot be encoded", number)
        text = f"The server could not encode its answer. Its log says why, under {number}."
        return _starlette_response(
            ApiResponse(500, error_body(ApiError(500, INTERNAL_ERROR, text))), threads, always
        )


def _starlette_response(response: ApiResponse, threads: ThreadPool, always: Mapping[str, str]) -> Response:
    headers = {**always, **response.headers, "request-id": str(uuid.uuid4())}
    headers["x-ms-request-id"] = headers["request-id"]
    if response.chunks is not None:
        return StreamingResponse(
            threads.iterate(response.chunks), status_code=response.status, headers=headers
        )
    if response.data is not None:
        headers["Content-Type"] = JSON
        return Response(_json(response.data), status_code=response.status, headers=headers)
    return Response(response.body or b"", status_code=response.status, headers=headers)


def _json(data: Any) -> bytes:
    """JSON as UTF-8; lone surrogates, which older versions stored, are replaced."""
    text = json.dumps(data, ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub("\ufffd", text).encode()
