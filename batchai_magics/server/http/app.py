"""The ASGI application: hosts and tokens are looked at, then storage or Azure Resource Manager answers."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import datetime, timezone
from functools import partial
from typing import Any, BinaryIO

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp

from batchai_magics.errors import BatchAIError
from batchai_magics.server.access.gate import Gate
from batchai_magics.server.arm.accounts import RESERVED
from batchai_magics.server.arm.routes import ROUTES as ARM_ROUTES
from batchai_magics.server.arm.tokens import managed_identity
from batchai_magics.server.batchai.routes import ROUTES as BATCHAI_ROUTES
from batchai_magics.server.call import Answer, Call, Route
from batchai_magics.server.description import DESCRIPTION, description
from batchai_magics.server.errors import refusal
from batchai_magics.server.http.endpoint import Desk, endpoint, foreseen_or_defect, refused
from batchai_magics.server.http.limits import Limits
from batchai_magics.server.http.messages import call_of, raw_path, response_of
from batchai_magics.server.http.metrics import Metrics
from batchai_magics.server.http.threads import Threads
from batchai_magics.server.http.versions import versioned
from batchai_magics.server.http.waiting import Waiting
from batchai_magics.server.service import Service
from batchai_magics.server.storage import errors as storage_errors
from batchai_magics.server.storage.dispatch import Counter
from batchai_magics.server.storage.request import is_host, resource_of
from batchai_magics.server.storage.sas import Caller
from batchai_magics.server.storage.uploads import Uploads

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_VERSION = "2021-06-08"  # of storage, for who says none


class App:
    """One server, as ASGI calls it."""

    def __init__(
        self,
        service: Service,
        gate: Gate,
        limits: Limits,
        metrics: Metrics,
        *,
        uploads: Uploads,
        is_files_only: bool = False,
    ) -> None:
        self.service, self.gate, self.limits, self.metrics = service, gate, limits, metrics
        self.is_files_only = is_files_only
        self._threads = Threads(limits.threads)
        self._storage_threads = Threads(limits.threads)
        self._waiting = Waiting(limits)
        self._desk = Desk(service, self._threads, Threads(limits.streams), limits, self._waiting)
        self._counter = Counter(service, uploads)
        self._arm = self._make_arm()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._arm(scope, receive, send)
            return
        request = Request(scope, receive)
        host = request.headers.get("host", "")
        first = raw_path(scope).strip("/").partition("/")[0].lower()
        respond: ASGIApp
        if not self.gate.knows_host(host):
            error = refusal(421, "MisdirectedRequest", "This server does not have that name.")
            respond = self._as_response(refused(error))
        elif is_host(host) or (first and first not in RESERVED):
            respond = await self._storage(request, host)
        else:
            answer = self._own_answer(request, first)
            respond = self._as_response(answer) if answer else self._arm
        await respond(scope, receive, send)

    def _own_answer(self, request: Request, first: str) -> Answer | None:
        """What the server says of itself; None for what is asked of Azure."""
        if first == "healthz":
            return Answer(data={"status": "ok"})
        if first == DESCRIPTION and not self.is_files_only:
            return Answer(data=description())
        if first == "metrics":
            return self._numbers(request)
        is_identity = first == "msi" and not self.is_files_only
        return managed_identity(raw_path(request.scope)) if is_identity else None

    def _make_arm(self) -> Starlette:
        routes = () if self.is_files_only else (*BATCHAI_ROUTES, *ARM_ROUTES)
        made = [
            _any_case(StarletteRoute(route.path, self._entered(route), methods=[route.method]))
            for route in routes
        ]
        app = Starlette(routes=made, exception_handlers={HTTPException: self._not_routed})
        app.router.redirect_slashes = False
        return app

    def _entered(self, route: Route) -> Callable[[Request], Awaitable[Response]]:
        most_bytes = self.limits.range_bytes if route.takes_files else self.limits.body_bytes
        respond = endpoint(versioned(route), self._desk, most_bytes)

        async def enter(request: Request) -> Response:
            try:
                request.scope["user"] = self.gate.user_of(request.headers.get("authorization", ""))
            except BatchAIError as error:
                return self._as_response(refused(error))
            return await respond(request)

        return enter

    def _numbers(self, request: Request) -> Answer:
        try:
            self.gate.user_of(request.headers.get("authorization", ""))
        except BatchAIError as error:
            return refused(error)
        return self.metrics.answer()

    async def _not_routed(self, request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 404)
        if status == 405:
            text = f"The method {request.method} is not offered for this resource."
            return self._as_response(refused(refusal(405, "MethodNotAllowed", text)))
        text = f"No resource is found at {request.url.path}."
        return self._as_response(refused(refusal(404, "InvalidResourceType", text)))

    async def _storage(self, request: Request, host: str) -> Response:
        if not is_large(request):
            return await self._stored_from(request, host, self.limits.range_bytes, None)
        with tempfile.TemporaryFile() as spool:
            return await self._stored_from(request, host, self.limits.blob_bytes, spool)

    async def _stored_from(
        self, request: Request, host: str, most_bytes: int, spool: BinaryIO | None
    ) -> Response:
        try:
            call = await call_of(request, self.limits, most_bytes=most_bytes, spool=spool)
        except BatchAIError as error:
            return self._as_response(storage_errors.answer(error, "-"))
        except OSError as error:  # of the spool
            told = foreseen_or_defect(Call(request.method, raw_path(request.scope)), error)
            return self._as_response(storage_errors.answer(told, "-"))
        client = request.client.host if request.client else ""
        caller = Caller(datetime.now(timezone.utc), client, request.url.scheme == "https")
        ask = partial(self._storage_threads.run, partial(self._stored, call, host, caller))
        answer = await self._waiting.for_bytes(call, ask)
        version = call.headers.get("x-ms-version") or call.query.get("sv") or ""
        answer = answer.with_headers(x_ms_version=version if _DATE.fullmatch(version) else _VERSION)
        return response_of(answer, self._storage_threads)

    def _stored(self, call: Call, host: str, caller: Caller) -> Answer:
        try:
            return self._counter.answer(call, resource_of(call, host), caller)
        except BatchAIError as error:
            return storage_errors.answer(error, "-")
        except Exception as error:  # noqa: BLE001  a defect of ours: it is written down, and the client told its number
            return storage_errors.answer(foreseen_or_defect(call, error), "-")

    def _as_response(self, answer: Answer) -> Response:
        return response_of(answer, self._threads)


def is_large(request: Request) -> bool:
    """Whether a request may have a body that memory should not hold: a blob, or a block of one."""
    is_block = "comp=block&" in f"{request.url.query}&"
    return request.method == "PUT" and ("x-ms-blob-type" in request.headers or is_block)


def _any_case(route: StarletteRoute) -> StarletteRoute:
    """The route for its path in any letter case, as ids of Azure are."""
    route.path_regex = re.compile(route.path_regex.pattern, re.IGNORECASE)
    return route
