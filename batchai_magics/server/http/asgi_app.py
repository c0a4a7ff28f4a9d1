"""The ASGI application in front of a backend: its state, its middleware in order, and its addresses."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from batchai_magics.backends.base import Backend
from batchai_magics.config import Settings
from batchai_magics.errors import BatchAIError
from batchai_magics.server.access.access_control import Authenticator, Owners, Users
from batchai_magics.server.api_call import ApiCall, ApiError, ApiResponse
from batchai_magics.server.api_routes import ARM_ROUTES
from batchai_magics.server.api_routes import ROUTES as BATCHAI_ROUTES
from batchai_magics.server.arm.storage_accounts import RESERVED_PATHS
from batchai_magics.server.az_config import managed_identity_token
from batchai_magics.server.handler_context import Handler, HandlerContext, Route
from batchai_magics.server.http.long_polling import ByteWaiter, ChangeWaiter, LongPolling
from batchai_magics.server.http.request_bodies import BodyReader, RequestBodies
from batchai_magics.server.http.request_checks import (
    ApiVersionCheck,
    Authentication,
    HostCheck,
    UrlEncodingCheck,
    first_segment,
    raw_path,
)
from batchai_magics.server.http.request_limits import RequestGuard, ServerLimits, ThreadPool
from batchai_magics.server.http.request_telemetry import AccessLog, ServerMetrics
from batchai_magics.server.http.response_encoder import (
    OPENAPI_PATH,
    ErrorResponses,
    ExtensionFilter,
    ResponseEncoder,
    openapi_document,
    send_response,
)
from batchai_magics.server.operations import Operations
from batchai_magics.server.server_home import ServerHome
from batchai_magics.server.storage.sas import AccountKeys
from batchai_magics.server.storage.storage_metadata import MetadataStore
from batchai_magics.server.storage.storage_resource import is_storage_host, storage_error_response
from batchai_magics.server.storage.storage_router import (
    StorageAuthorization,
    StorageEndpoint,
    StorageResponses,
    StorageRouter,
)
from batchai_magics.server.storage.unfinished_uploads import PartFiles, UnfinishedUploads

_LOG = logging.getLogger(__name__)
_RECONCILE_S = 1.0  # between two calls


class HandlerEndpoint:
    """Sends the response of a handler; a `handler` in the scope takes its place.

    Requests for another subscription than the server's are rejected (404).
    """

    def __init__(self, route: Route, context: HandlerContext, threads: ThreadPool) -> None:
        self._handler, self._context, self._threads = route.handler, context, threads
        self.is_read = route.is_read  # for the access log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        handler: Handler = scope.get("handler", self._handler)
        await send_response(send, await self._threads.run(partial(self._respond, handler, scope["call"])))

    def _respond(self, handler: Handler, call: ApiCall) -> ApiResponse:
        self._context.check_subscription(call)
        return handler(self._context, call)


class App:
    """The ASGI application of one server."""

    def __init__(
        self,
        context: HandlerContext,
        gate: Authenticator,
        limits: ServerLimits,
        log: AccessLog,
        *,
        uploads: UnfinishedUploads,
        is_files_only: bool = False,
    ) -> None:
        self._context, self._gate, self._limits, self._log = context, gate, limits, log
        self._reconciliation = BackgroundReconciliation(context.backend)
        metrics = ServerMetrics()
        self._threads, self._storage_threads = ThreadPool(limits.threads), ThreadPool(limits.threads)
        self._waiting, self._bodies = LongPolling(limits), RequestBodies(limits, metrics)
        self._storage = self._make_storage(StorageRouter(context, uploads))
        # the endpoints of the server itself, by the first segment of their paths
        health = _OwnEndpoint(lambda _: ApiResponse(data={"status": "ok"}))
        exposition = _stack(
            _OwnEndpoint(lambda _: metrics.exposition()), [Middleware(Authentication, self._gate)]
        )
        endpoints: dict[str, ASGIApp] = {"healthz": health, "metrics": exposition}
        if not is_files_only:
            endpoints[OPENAPI_PATH] = _OwnEndpoint(lambda _: ApiResponse(data=openapi_document()))
            endpoints["msi"] = _OwnEndpoint(_managed_identity)
        self._own = {name: _stack(app, [Middleware(UrlEncodingCheck)]) for name, app in endpoints.items()}
        self._api = self._make_api(() if is_files_only else (*BATCHAI_ROUTES, *ARM_ROUTES))
        self._http = _stack(
            self._dispatch,
            [
                Middleware(RequestGuard, limits, log, metrics),
                Middleware(ResponseEncoder, ThreadPool(limits.streams)),  # a command may write for hours
                Middleware(ErrorResponses),
                Middleware(HostCheck, gate),
            ],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        app = self._http if scope["type"] == "http" else self._api
        await app(scope, receive, send)

    def close(self) -> None:
        """Closes the access log, and ends what runs in the background."""
        self._reconciliation.close()
        self._log.close()

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request to storage, to an endpoint of the server itself, or to the API, by its address."""
        first = first_segment(scope)
        host = Request(scope).headers.get("host", "")
        is_of_storage = is_storage_host(host) or bool(first and first not in RESERVED_PATHS)
        app = self._storage if is_of_storage else self._own.get(first, self._api)
        await app(scope, receive, send)

    def _make_storage(self, router: StorageRouter) -> ASGIApp:
        limits = self._limits
        return _stack(
            StorageEndpoint(self._storage_threads),
            [
                Middleware(ResponseEncoder, self._storage_threads, is_file=True),
                Middleware(StorageResponses),
                Middleware(ErrorResponses, storage_error_response),
                Middleware(UrlEncodingCheck),
                Middleware(StorageAuthorization, router, self._storage_threads),
                Middleware(
                    BodyReader, self._bodies, max_bytes=limits.range_bytes, spooled_bytes=limits.blob_bytes
                ),
                Middleware(ByteWaiter, self._waiting),
                Middleware(
                    ErrorResponses, storage_error_response
                ),  # again: a call that waits for bytes goes on waiting after a 416
            ],
        )

    def _make_api(self, routes: Sequence[Route]) -> ASGIApp:
        api = Starlette(
            routes=[_case_insensitive(self._make_route(route)) for route in routes],
            middleware=[Middleware(ErrorResponses), Middleware(UrlEncodingCheck)],
            exception_handlers={HTTPException: _not_routed},
        )
        api.router.redirect_slashes = False
        return api

    def _make_route(self, route: Route) -> StarletteRoute:
        limits = self._limits
        middleware = [
            Middleware(ExtensionFilter, route.path),
            Middleware(ErrorResponses),
            Middleware(Authentication, self._gate),
            Middleware(
                BodyReader,
                self._bodies,
                max_bytes=limits.range_bytes if route.takes_files else limits.body_bytes,
            ),
            Middleware(
                ApiVersionCheck,
                location=self._context.location,
                is_batchai="/Microsoft.BatchAI/" in route.path,
            ),
            Middleware(ChangeWaiter, self._waiting, route.watch),
            Middleware(ErrorResponses),  # again: an error is a state that a client may wait to see changed
        ]
        endpoint = HandlerEndpoint(route, self._context, self._threads)
        return StarletteRoute(route.path, endpoint, methods=[route.method], middleware=middleware)


class BackgroundReconciliation:
    """Calls `Backend.reconcile` every second in a thread of its own, until it is closed.

    Clients may only read, and reading starts nothing.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="batchai-reconcile")
        self._thread.start()

    def close(self) -> None:
        """Returns once no call is running; the backend may then be closed."""
        self._is_closed.set()
        self._thread.join()

    def _run(self) -> None:
        last = ""
        while not self._is_closed.wait(_RECONCILE_S):
            try:
                self._backend.reconcile()
                last = ""
            except BatchAIError as error:  # the next call tries again; a persistent error is logged once
                if str(error) != last:
                    _LOG.warning("cannot reconcile: %s", error)
                last = str(error)


def _stack(app: ASGIApp, middleware: Sequence[Middleware]) -> ASGIApp:
    """The application inside its middleware, the first of which is the outermost."""
    for layer, args, kwargs in reversed(middleware):
        app = layer(app, *args, **kwargs)
    return app


class _OwnEndpoint:
    """An endpoint of the server itself, which needs the head of a request alone."""

    def __init__(self, respond: Callable[[Scope], ApiResponse]) -> None:
        self._respond = respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        await send_response(send, self._respond(scope))


def _managed_identity(scope: Scope) -> ApiResponse:
    return managed_identity_token(raw_path(scope), Request(scope).headers.get("x-identity-header", ""))


async def _not_routed(request: Request, error: Exception) -> NoReturn:
    if getattr(error, "status_code", 404) == 405:
        text = f"The method {request.method} is not offered for this resource."
        raise ApiError(405, "MethodNotAllowed", text)
    raise ApiError(404, "InvalidResourceType", f"No resource is found at {request.url.path}.")


def _case_insensitive(route: StarletteRoute) -> StarletteRoute:
    """The route with its path matched case-insensitively, as Azure ids are."""
    route.path_regex = re.compile(route.path_regex.pattern, re.IGNORECASE)
    return route


def open_context(backend: Backend, settings: Settings, home: ServerHome) -> HandlerContext:
    """The backend with the server's state; resumes operations that an earlier server left unfinished."""
    home.make()
    operations = Operations(home.operations, backend)
    operations.resume()
    return HandlerContext(
        backend=backend,
        subscription=settings.subscription,
        location=settings.location,
        group=settings.resource_group,
        operations=operations,
        owners=Owners(home.owners, backend.ownership),
        keys=AccountKeys(home.keys, backend),
        metadata=MetadataStore(home.metadata),
    )


def make_app(
    context: HandlerContext,
    limits: ServerLimits,
    home: ServerHome,
    *,
    token: str,
    names: Sequence[str],
    is_files_only: bool = False,
) -> App:
    """The ASGI application of a server.

    `token` is the administrator's, `names` are the accepted hosts. Deletes part files of earlier servers.
    """
    gate = Authenticator(token, names, Users(home.users).tokens)
    parts = PartFiles(home.uploads)
    parts.sweep(context.backend)
    log, uploads = AccessLog(home.access_log), UnfinishedUploads(parts)
    return App(context, gate, limits, log, uploads=uploads, is_files_only=is_files_only)
