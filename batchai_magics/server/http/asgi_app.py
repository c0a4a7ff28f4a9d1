"""The ASGI application in front of a backend: its state, and the steps of a request in order."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from starlette.requests import Request
from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketClose

from batchai_magics.backends.base import Backend
from batchai_magics.backends.service.extension_wire import OWN_CLIENT
from batchai_magics.config import Settings
from batchai_magics.errors import BatchAIError
from batchai_magics.server.access.access_control import Authenticator, Owners, Users
from batchai_magics.server.api_call import ApiCall, ApiError, ApiResponse
from batchai_magics.server.api_routes import ARM_ROUTES, Route
from batchai_magics.server.api_routes import ROUTES as BATCHAI_ROUTES
from batchai_magics.server.arm.storage_accounts import RESERVED_PATHS
from batchai_magics.server.az_config import managed_identity_token
from batchai_magics.server.handler_context import Handler, HandlerContext
from batchai_magics.server.http.long_polling import LongPolling
from batchai_magics.server.http.request_bodies import RequestBodies
from batchai_magics.server.http.request_checks import (
    check_api_version,
    first_segment,
    has_known_host,
    parse_head,
)
from batchai_magics.server.http.request_limits import RequestGuard, ServerLimits, ThreadPool
from batchai_magics.server.http.request_telemetry import AccessLog, ServerMetrics
from batchai_magics.server.http.response_encoder import (
    OPENAPI_PATH,
    is_extension,
    openapi_document,
    published_response,
    response_or_error,
    to_starlette,
)
from batchai_magics.server.operations import Operations
from batchai_magics.server.server_home import ServerHome
from batchai_magics.server.storage.sas import AccountKeys
from batchai_magics.server.storage.storage_metadata import MetadataStore
from batchai_magics.server.storage.storage_resource import is_storage_host
from batchai_magics.server.storage.storage_router import StorageEndpoint, StorageRouter
from batchai_magics.server.storage.unfinished_uploads import PartFiles, UnfinishedUploads

_LOG = logging.getLogger(__name__)
_RECONCILE_S = 1.0  # between two calls


class App:
    """The ASGI application of one server."""

    def __init__(
        self,
        context: HandlerContext,
        authenticator: Authenticator,
        limits: ServerLimits,
        log: AccessLog,
        *,
        uploads: UnfinishedUploads,
        is_files_only: bool = False,
    ) -> None:
        self._context, self._authenticator, self._limits, self._log = context, authenticator, limits, log
        self._reconciliation = BackgroundReconciliation(context.backend)
        self._metrics = ServerMetrics()
        self._threads = ThreadPool(limits.threads)
        self._streams = ThreadPool(limits.streams)  # a command may write for hours
        self._long_polling, self._bodies = LongPolling(limits), RequestBodies(limits, self._metrics)
        self._storage = StorageEndpoint(
            StorageRouter(context, uploads), limits, bodies=self._bodies, waiting=self._long_polling
        )
        # the endpoints of the server itself, by the first segment of their paths
        self._server_endpoints: dict[str, Callable[[ApiCall], ApiResponse]] = {
            "healthz": lambda _: ApiResponse(data={"status": "ok"}),
            "metrics": self._show_metrics,
        }
        routes: Sequence[Route] = ()
        if not is_files_only:
            self._server_endpoints[OPENAPI_PATH] = lambda _: ApiResponse(data=openapi_document())
            self._server_endpoints["msi"] = managed_identity_token
            routes = (*BATCHAI_ROUTES, *ARM_ROUTES)
        self._routes = [  # paths are matched case-insensitively, as Azure ids are
            (re.compile(compile_path(route.path)[0].pattern, re.IGNORECASE), route) for route in routes
        ]
        self._guard = RequestGuard(self._serve, limits, log, self._metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        app = self._guard if scope["type"] == "http" else WebSocketClose()
        await app(scope, receive, send)

    def close(self) -> None:
        """Closes the access log, and ends what runs in the background."""
        self._reconciliation.close()
        self._log.close()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the response of storage or of the API to a request."""
        request = Request(scope, receive)
        first = first_segment(request)  # names an account, unless the host does
        is_storage = has_known_host(request, self._authenticator) and (
            is_storage_host(request.headers["host"]) or bool(first and first not in RESERVED_PATHS)
        )
        if is_storage:
            response, threads = await self._storage.respond(request), self._storage.threads
        else:
            response = await response_or_error(request, partial(self._respond, request))
            threads = self._streams
        await to_starlette(response, threads, is_file=is_storage)(scope, receive, send)

    async def _respond(self, request: Request) -> ApiResponse:
        """The response of an endpoint of the server itself, or of the API: to other clients as published."""
        if not has_known_host(request, self._authenticator):
            raise ApiError(421, "MisdirectedRequest", "This server does not have that name.")
        call = parse_head(request)
        if endpoint := self._server_endpoints.get(first_segment(request)):
            return endpoint(call)
        route, parts = self._find_route(request)
        request.scope["is_read"] = route.is_read  # for the access log
        respond = partial(self._respond_on_route, request, replace(call, parts=parts), route)
        response = await response_or_error(request, respond)
        is_extended = is_extension(route.path) or OWN_CLIENT in call.headers
        return response if is_extended else published_response(response)

    def _find_route(self, request: Request) -> tuple[Route, Mapping[str, str]]:
        """The route of a request, and the parameters in its path; a GET route also has HEAD."""
        is_known = False
        for pattern, route in self._routes:
            if match := pattern.match(request.scope["path"]):
                is_known = True
                if request.method == route.method or (request.method, route.method) == ("HEAD", "GET"):
                    return route, match.groupdict()
        if is_known:
            text = f"The method {request.method} is not offered for this resource."
            raise ApiError(405, "MethodNotAllowed", text)
        raise ApiError(404, "InvalidResourceType", f"No resource is found at {request.url.path}.")

    async def _respond_on_route(self, request: Request, call: ApiCall, route: Route) -> ApiResponse:
        user = self._authenticator.authenticate(request.headers.get("authorization", ""))
        request.scope["user"] = user  # for the access log
        max_bytes = self._limits.pack_bytes if route.takes_files else self._limits.body_bytes
        body = self._bodies.received(request, replace(call, user=user), user.name, max_bytes=max_bytes)
        async with body as call:
            is_batchai = "/Microsoft.BatchAI/" in route.path
            check_api_version(call, self._context.location, is_batchai=is_batchai)
            ask = partial(self._handle, request, call, route.handler)
            if route.watch is None or not self._long_polling.is_requested(call):
                return await self._long_polling.wait_for_state(call, ask)
            watcher = route.watch(call)

            async def poll(last: ApiResponse | None) -> ApiResponse:
                return await self._handle(request, call, lambda context, _: watcher.poll(context, last))

            return await self._long_polling.wait_for_watcher(call, watcher, poll=poll, ask=ask)

    async def _handle(self, request: Request, call: ApiCall, handler: Handler) -> ApiResponse:
        """The response of a handler, also for an error: a client may wait until that state changes."""

        def respond() -> ApiResponse:
            self._context.check_subscription(call)
            return handler(self._context, call)

        return await response_or_error(request, partial(self._threads.run, respond))

    def _show_metrics(self, call: ApiCall) -> ApiResponse:
        self._authenticator.authenticate(call.headers.get("authorization", ""))
        return self._metrics.exposition()


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


def open_context(backend: Backend, settings: Settings, home: ServerHome) -> HandlerContext:
    """The backend with the server's state; resumes operations that an earlier server left unfinished."""
    home.make()
    owners = Owners(home.owners, backend.ownership)
    operations = Operations(home.operations, backend, owners)
    operations.resume()
    return HandlerContext(
        backend=backend,
        subscription=settings.subscription,
        location=settings.location,
        group=settings.resource_group,
        operations=operations,
        owners=owners,
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
    authenticator = Authenticator(token, names, Users(home.users).tokens)
    parts = PartFiles(home.uploads)
    parts.sweep(context.backend)
    log, uploads = AccessLog(home.access_log), UnfinishedUploads(parts, context.backend)
    return App(context, authenticator, limits, log, uploads=uploads, is_files_only=is_files_only)
