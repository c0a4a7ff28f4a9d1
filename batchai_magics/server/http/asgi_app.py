"""The ASGI application: checks the host and token, then routes to storage or Azure Resource Manager."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp

from batchai_magics.backends.service.extensions.extension_headers import OWN_CLIENT
from batchai_magics.errors import BatchAIError
from batchai_magics.server.access.authentication import Authenticator
from batchai_magics.server.api_call import ApiCall, ApiResponse
from batchai_magics.server.api_errors import ApiError
from batchai_magics.server.arm.arm_routes import ROUTES as ARM_ROUTES
from batchai_magics.server.arm.storage_accounts import RESERVED_PATHS
from batchai_magics.server.az_config import managed_identity_token
from batchai_magics.server.batchai.batchai_routes import ROUTES as BATCHAI_ROUTES
from batchai_magics.server.http.http_endpoint import (
    HandlerContext,
    check_url_encoding,
    client_address,
    error_response,
    make_endpoint,
    parse_head,
    raw_path,
    to_api_error,
    to_starlette,
)
from batchai_magics.server.http.long_polling import LongPolling
from batchai_magics.server.http.request_bodies import BodySender, ExpectedBody, RequestBodies
from batchai_magics.server.http.request_limits import ServerLimits, ThreadPool
from batchai_magics.server.http.server_metrics import ServerMetrics
from batchai_magics.server.published_api import OPENAPI_PATH, openapi_document
from batchai_magics.server.service import Route, Service
from batchai_magics.server.storage import storage_errors
from batchai_magics.server.storage.sas import RequestOrigin
from batchai_magics.server.storage.storage_resource import is_storage_host
from batchai_magics.server.storage.storage_router import AuthorizedRequest, StorageRouter
from batchai_magics.server.storage.unfinished_uploads import UnfinishedUploads

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DEFAULT_VERSION = "2021-06-08"  # of storage, for requests without one


class App:
    """The ASGI application of one server."""

    def __init__(
        self,
        service: Service,
        gate: Authenticator,
        limits: ServerLimits,
        metrics: ServerMetrics,
        *,
        uploads: UnfinishedUploads,
        is_files_only: bool = False,
    ) -> None:
        self.service, self.gate, self.limits, self.metrics = service, gate, limits, metrics
        self.is_files_only = is_files_only
        self._threads = ThreadPool(limits.threads)
        self._storage_threads = ThreadPool(limits.threads)
        self._waiting = LongPolling(limits)
        self._bodies = RequestBodies(limits, metrics)
        self._context = HandlerContext(
            service, self._threads, ThreadPool(limits.streams), self._bodies, self._waiting
        )
        self._storage_router = StorageRouter(service, uploads)
        self._arm = self._make_arm()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._arm(scope, receive, send)
            return
        request = Request(scope, receive)
        host = request.headers.get("host", "")
        first = raw_path(scope).strip("/").partition("/")[0].lower()
        respond: ASGIApp
        if not self.gate.accepts_host(host):
            error = ApiError(421, "MisdirectedRequest", "This server does not have that name.")
            respond = self._as_response(error_response(error))
        else:
            respond = await self._addressed(request, host, first)
        await respond(scope, receive, send)

    async def _addressed(self, request: Request, host: str, first: str) -> ASGIApp:
        """The ASGI app that responds to a request, by its address."""
        is_of_storage = is_storage_host(host) or bool(first and first not in RESERVED_PATHS)
        try:
            check_url_encoding(request.scope)
        except BatchAIError as error:
            response = (
                storage_errors.storage_error_response(error, "-") if is_of_storage else error_response(error)
            )
            return self._as_response(response)
        if is_of_storage:
            return await self._storage(request, host)
        own_response = self._own_endpoint(request, first)
        return self._as_response(own_response) if own_response else self._arm

    def _own_endpoint(self, request: Request, first: str) -> ApiResponse | None:
        """The server's own endpoints (health, OpenAPI, metrics, identity); None for all others."""
        if first == "healthz":
            return ApiResponse(data={"status": "ok"})
        if first == OPENAPI_PATH and not self.is_files_only:
            return ApiResponse(data=openapi_document())
        if first == "metrics":
            return self._numbers(request)
        is_identity = first == "msi" and not self.is_files_only
        return _managed_identity(request) if is_identity else None

    def _make_arm(self) -> Starlette:
        routes = () if self.is_files_only else (*BATCHAI_ROUTES, *ARM_ROUTES)
        made = [
            _case_insensitive(StarletteRoute(route.path, self._entered(route), methods=[route.method]))
            for route in routes
        ]
        app = Starlette(routes=made, exception_handlers={HTTPException: self._not_routed})
        app.router.redirect_slashes = False
        return app

    def _entered(self, route: Route) -> Callable[[Request], Awaitable[Response]]:
        max_bytes = self.limits.range_bytes if route.takes_files else self.limits.body_bytes
        respond = make_endpoint(route, self._context, max_bytes)

        async def enter(request: Request) -> Response:
            try:
                request.scope["user"] = self.gate.authenticate(request.headers.get("authorization", ""))
            except BatchAIError as error:
                return self._as_response(error_response(error))
            return await respond(request)

        return enter

    def _numbers(self, request: Request) -> ApiResponse:
        try:
            self.gate.authenticate(request.headers.get("authorization", ""))
        except BatchAIError as error:
            return error_response(error)
        return self.metrics.exposition()

    async def _not_routed(self, request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 404)
        if status == 405:
            text = f"The method {request.method} is not offered for this resource."
            return self._as_response(error_response(ApiError(405, "MethodNotAllowed", text)))
        text = f"No resource is found at {request.url.path}."
        return self._as_response(error_response(ApiError(404, "InvalidResourceType", text)))

    async def _storage(self, request: Request, host: str) -> Response:
        """Handles a storage request; its body is not read before it is authorized."""
        call = parse_head(request)
        caller = RequestOrigin(
            datetime.now(timezone.utc), client_address(request), request.url.scheme == "https"
        )
        try:
            admit = partial(self._storage_router.authorize, call, host, caller)
            response = await self._admitted(request, call, await self._storage_threads.run(admit))
        except BatchAIError as error:
            response = storage_errors.storage_error_response(error, "-")
        except Exception as error:  # noqa: BLE001  a bug: logged under a number that the client gets
            response = storage_errors.storage_error_response(to_api_error(call, error), "-")
        if OWN_CLIENT not in call.headers:
            response = storage_errors.without_extensions(response)
        version = call.headers.get("x-ms-version") or call.query.get("sv") or ""
        response = response.with_headers(
            x_ms_version=version if _DATE.fullmatch(version) else _DEFAULT_VERSION
        )
        return to_starlette(response, self._storage_threads, is_file=True)

    async def _admitted(self, request: Request, call: ApiCall, admitted: AuthorizedRequest) -> ApiResponse:
        """Reads the body of an authorized request and runs its handler."""
        sender = BodySender(f"{admitted.principal} at {client_address(request)}", client_address(request))
        with contextlib.ExitStack() as stack:
            upload = ExpectedBody(sender, self.limits.range_bytes)
            if is_large(request):
                spool = stack.enter_context(tempfile.TemporaryFile())
                upload = ExpectedBody(sender, self.limits.blob_bytes, spool)
            stack.enter_context(self._bodies.reserve(call, upload))
            body = await self._bodies.read(request, upload)
            ready = replace(call, body=body, spool=upload.spool)
            ask = partial(self._storage_threads.run, partial(admitted.respond, ready))
            return await self._waiting.wait_for_bytes(ready, partial(_response_or_error, ask))

    def _as_response(self, response: ApiResponse) -> Response:
        return to_starlette(response, self._threads)


async def _response_or_error(ask: Callable[[], Awaitable[ApiResponse]]) -> ApiResponse:
    """The response, or an error response: waiting for bytes of a file continues after a 416."""
    try:
        return await ask()
    except BatchAIError as error:
        return storage_errors.storage_error_response(error, "-")


def _managed_identity(request: Request) -> ApiResponse:
    return managed_identity_token(raw_path(request.scope), request.headers.get("x-identity-header", ""))


def is_large(request: Request) -> bool:
    """Whether a request may have a body too large for memory: a blob, or a block of one."""
    is_block = "comp=block&" in f"{request.url.query}&"
    return request.method == "PUT" and ("x-ms-blob-type" in request.headers or is_block)


def _case_insensitive(route: StarletteRoute) -> StarletteRoute:
    """The route with its path matched case-insensitively, as Azure ids are."""
    route.path_regex = re.compile(route.path_regex.pattern, re.IGNORECASE)
    return route
