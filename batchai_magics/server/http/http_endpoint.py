"""HTTP endpoints: request to `ApiCall`, version check, handler, `ApiResponse` to response."""

from __future__ import annotations

import json
import logging
import re
import traceback
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from batchai_magics.errors import BatchAIError, is_disk_full
from batchai_magics.server.api_call import ApiCall, ApiResponse, User, decode_url_text, parse_query
from batchai_magics.server.api_errors import INTERNAL_ERROR, ApiError, disk_full_error, error_body, status_of
from batchai_magics.server.batchai.batchai_responses import API_VERSION
from batchai_magics.server.http.long_polling import LongPolling
from batchai_magics.server.http.request_bodies import BodySender, ExpectedBody, RequestBodies
from batchai_magics.server.http.request_limits import ThreadPool
from batchai_magics.server.published_api import published_response
from batchai_magics.server.service import Handler, Route, Service

LOG = logging.getLogger("batchai.server")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_COMMON_HEADERS = {"X-Content-Type-Options": "nosniff"}
_NO_CACHE_HEADERS = {"Cache-Control": "no-cache", "Pragma": "no-cache", "Expires": "-1"}
JSON = "application/json; charset=utf-8"


def check_url_encoding(scope: Mapping[str, Any]) -> None:
    """Raises ApiError for a path or query that is not UTF-8; `parse_head` requires it."""
    decode_url_text(_raw_path(scope), "The path of the request")
    parse_query(bytes(scope.get("query_string", b"")))


def parse_head(request: Request) -> ApiCall:
    """The request without its body, which is not read."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    return ApiCall(
        method=request.method,
        path=raw_path(request.scope),
        query=parse_query(bytes(request.scope.get("query_string", b""))),
        headers=headers,
        origin=f"{request.url.scheme}://{headers.get('host', '')}",
        parts=dict(request.path_params),
        user=request.scope.get("user") or User("nobody"),
    )


def client_address(request: Request) -> str:
    """The address of the connection's client."""
    return request.client.host if request.client else ""


def raw_path(scope: Mapping[str, Any]) -> str:
    """The path as received, percent-encoded."""
    return _raw_path(scope).decode("ascii", "replace")


def _raw_path(scope: Mapping[str, Any]) -> bytes:
    return bytes(scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]


def to_starlette(response: ApiResponse, threads: ThreadPool, *, is_file: bool = False) -> Response:
    """The Starlette response with a request id; one that cannot be encoded becomes a 500.

    Files have their own caching headers, resources are never cached.
    """
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


_API_VERSION = re.compile(r"\d{4}-\d\d-\d\d(-[a-z]+)?", re.IGNORECASE)


def with_version_check(route: Route, handler: Handler) -> Handler:
    """The handler for requests with a supported `api-version` (Batch AI: the last published one)."""
    is_batchai = "/Microsoft.BatchAI/" in route.path

    def handle(service: Service, call: ApiCall) -> ApiResponse:
        version = call.query.get("api-version", "")
        if not version:
            message = "The api-version query parameter (?api-version=) is required for all requests."
            raise ApiError(400, "MissingApiVersionParameter", message)
        if is_batchai and version != API_VERSION:
            raise _unsupported_version(service, call, version)
        if not _API_VERSION.fullmatch(version):
            raise ApiError(400, "InvalidApiVersionParameter", f"The api-version '{version}' is invalid.")
        return handler(service, call)

    return handle


def _unsupported_version(service: Service, call: ApiCall, version: str) -> Exception:
    kinds = call.path.lower().rpartition("/microsoft.batchai/")[2].split("/")[::2]
    text = (
        f"No registered resource provider found for location '{service.location}' and API version '{version}'"
        f" for type '{'/'.join(kinds)}'. The supported api-versions are '{API_VERSION}'."
    )
    return ApiError(400, "NoRegisteredProviderFound", text)


Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class HandlerContext:
    """What all endpoints share."""

    service: Service
    threads: ThreadPool
    streams: ThreadPool  # for streamed responses: a command on a node may write for hours
    bodies: RequestBodies
    waiting: LongPolling


def make_endpoint(route: Route, context: HandlerContext, max_bytes: int) -> Endpoint:
    """The route as a Starlette endpoint, for authenticated users and bodies up to `max_bytes`."""

    async def respond(request: Request) -> Response:
        call = parse_head(request)
        upload = ExpectedBody(BodySender(call.user.name, client_address(request)), max_bytes)
        try:
            with context.bodies.reserve(call, upload):
                ready = replace(call, body=await context.bodies.read(request, upload))
                response = await _respond(route, context, ready)
        except BatchAIError as error:
            response = error_response(error)
        return to_starlette(published_response(response, call, route), context.streams)

    return respond


async def _respond(route: Route, context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Runs the handler, waiting for changes if requested. Raises ApiError for an invalid wait."""

    async def run(handler: Handler) -> ApiResponse:
        return await context.threads.run(
            lambda: run_handler(with_version_check(route, handler), context.service, call)
        )

    ask = partial(run, route.handler)
    if not (route.watch and context.waiting.is_requested(call)):
        return await context.waiting.wait_for_state(call, ask)
    watcher = route.watch(call)

    async def poll(last: ApiResponse | None) -> ApiResponse:
        return await run(lambda service, _: watcher.poll(service, last))

    return await context.waiting.wait_for_watcher(call, watcher, poll=poll, ask=ask)


def run_handler(handler: Handler, service: Service, call: ApiCall) -> ApiResponse:
    """The handler's response, or an error response."""
    try:
        return handler(service, call)
    except BatchAIError as error:
        return error_response(error)
    except Exception as error:  # noqa: BLE001  a bug: logged under a number that the client gets
        return error_response(to_api_error(call, error))


def error_response(error: BatchAIError) -> ApiResponse:
    """The response for an error."""
    status = status_of(error)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return ApiResponse(status, error_body(error), {**headers, **_retry_after(status)})


def to_api_error(call: ApiCall, error: Exception) -> BatchAIError:
    """The error to send for a foreign exception; unexpected ones are logged under a number."""
    if isinstance(error, OSError) and is_disk_full(error):
        return disk_full_error()
    number = uuid.uuid4().hex[:12]
    LOG.error("defect %s at %s %s\n%s", number, call.method, call.path, traceback.format_exc())
    message = f"The server could not do this. Its log says why, under {number}."
    return ApiError(500, INTERNAL_ERROR, message)


def _retry_after(status: int) -> dict[str, str]:
    return {"Retry-After": "1"} if status == 503 else {}
