"""The ASGI application: hosts and tokens are looked at, then storage or Azure Resource Manager answers."""

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

from batchai_magics.backends.service.dialect.headers import OWN_CLIENT
from batchai_magics.errors import BatchAIError
from batchai_magics.server.access.gate import Gate
from batchai_magics.server.arm.accounts import RESERVED
from batchai_magics.server.arm.routes import ROUTES as ARM_ROUTES
from batchai_magics.server.arm.tokens import managed_identity
from batchai_magics.server.batchai.routes import ROUTES as BATCHAI_ROUTES
from batchai_magics.server.call import Answer, Call
from batchai_magics.server.description import DESCRIPTION, description
from batchai_magics.server.errors import refusal
from batchai_magics.server.http.bodies import Bodies, Sender, Upload
from batchai_magics.server.http.endpoint import Desk, endpoint, foreseen_or_defect, refused
from batchai_magics.server.http.limits import Limits
from batchai_magics.server.http.messages import address_of, check_address, head_of, raw_path, response_of
from batchai_magics.server.http.metrics import Metrics
from batchai_magics.server.http.threads import Threads
from batchai_magics.server.http.waiting import Waiting
from batchai_magics.server.service import Route, Service
from batchai_magics.server.storage import errors as storage_errors
from batchai_magics.server.storage.dispatch import Admitted, Counter
from batchai_magics.server.storage.request import is_host
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
        self._bodies = Bodies(limits, metrics)
        self._desk = Desk(service, self._threads, Threads(limits.streams), self._bodies, self._waiting)
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
        else:
            respond = await self._addressed(request, host, first)
        await respond(scope, receive, send)

    async def _addressed(self, request: Request, host: str, first: str) -> ASGIApp:
        """What responds to a request for this server, by its address."""
        is_of_storage = is_host(host) or bool(first and first not in RESERVED)
        try:
            check_address(request.scope)
        except BatchAIError as error:
            told = storage_errors.answer(error, "-") if is_of_storage else refused(error)
            return self._as_response(told)
        if is_of_storage:
            return await self._storage(request, host)
        answer = self._own_answer(request, first)
        return self._as_response(answer) if answer else self._arm

    def _own_answer(self, request: Request, first: str) -> Answer | None:
        """What the server says of itself; None for what is asked of Azure."""
        if first == "healthz":
            return Answer(data={"status": "ok"})
        if first == DESCRIPTION and not self.is_files_only:
            return Answer(data=description())
        if first == "metrics":
            return self._numbers(request)
        is_identity = first == "msi" and not self.is_files_only
        return _identity(request) if is_identity else None

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
        respond = endpoint(route, self._desk, most_bytes)

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
        """Answers a request to storage; nothing of its body is read before it is authorized."""
        call = head_of(request)
        caller = Caller(datetime.now(timezone.utc), address_of(request), request.url.scheme == "https")
        try:
            admit = partial(self._counter.admit, call, host, caller)
            answer = await self._admitted(request, call, await self._storage_threads.run(admit))
        except BatchAIError as error:
            answer = storage_errors.answer(error, "-")
        except Exception as error:  # noqa: BLE001  a defect of ours: it is written down, and the client told its number
            answer = storage_errors.answer(foreseen_or_defect(call, error), "-")
        if OWN_CLIENT not in call.headers:
            answer = storage_errors.published(answer)
        version = call.headers.get("x-ms-version") or call.query.get("sv") or ""
        answer = answer.with_headers(x_ms_version=version if _DATE.fullmatch(version) else _VERSION)
        return response_of(answer, self._storage_threads, is_file=True)

    async def _admitted(self, request: Request, call: Call, admitted: Admitted) -> Answer:
        """The answer to a request that is authorized: its body is read now."""
        sender = Sender(f"{admitted.principal} at {address_of(request)}", address_of(request))
        with contextlib.ExitStack() as stack:
            upload = Upload(sender, self.limits.range_bytes)
            if is_large(request):
                spool = stack.enter_context(tempfile.TemporaryFile())
                upload = Upload(sender, self.limits.blob_bytes, spool)
            stack.enter_context(self._bodies.room_for(call, upload))
            body = await self._bodies.read(request, upload)
            ready = replace(call, body=body, spool=upload.spool)
            ask = partial(self._storage_threads.run, partial(admitted.answer, ready))
            return await self._waiting.for_bytes(ready, partial(_told, ask))

    def _as_response(self, answer: Answer) -> Response:
        return response_of(answer, self._threads)


async def _told(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """The answer, or the one that tells its error: who waits for bytes of a file waits through a 416."""
    try:
        return await ask()
    except BatchAIError as error:
        return storage_errors.answer(error, "-")


def _identity(request: Request) -> Answer:
    return managed_identity(raw_path(request.scope), request.headers.get("x-identity-header", ""))


def is_large(request: Request) -> bool:
    """Whether a request may have a body that memory should not hold: a blob, or a block of one."""
    is_block = "comp=block&" in f"{request.url.query}&"
    return request.method == "PUT" and ("x-ms-blob-type" in request.headers or is_block)


def _any_case(route: StarletteRoute) -> StarletteRoute:
    """The route for its path in any letter case, as ids of Azure are."""
    route.path_regex = re.compile(route.path_regex.pattern, re.IGNORECASE)
    return route
