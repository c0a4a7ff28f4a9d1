"""Middleware of storage requests: errors as XML, authorization before the body, and the handler."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from functools import partial

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from batchai_magics.backends.service.extension_wire import OWN_CLIENT
from batchai_magics.errors import BatchAIError
from batchai_magics.server.api_call import ApiCall, ApiResponse
from batchai_magics.server.http.error_responses import to_api_error
from batchai_magics.server.http.request_bodies import BodySender
from batchai_magics.server.http.request_checks import client_address, parse_head
from batchai_magics.server.http.request_limits import ThreadPool
from batchai_magics.server.http.response_encoder import response_of, send_response
from batchai_magics.server.storage.sas import RequestOrigin
from batchai_magics.server.storage.storage_errors import storage_error_response, without_extensions
from batchai_magics.server.storage.storage_router import AuthorizedRequest, StorageRouter

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DEFAULT_VERSION = "2021-06-08"  # for requests without one


class StorageResponses:
    """Responses get the version of the request; those for other clients lose what only our own reads."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        response = await response_of(self._app, scope, receive)
        if OWN_CLIENT not in Headers(scope=scope):
            response = without_extensions(response)
        await send_response(send, response.with_headers(x_ms_version=_version(scope.get("call"))))


class StorageErrors:
    """An exception of an inner application becomes an error response in XML."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        try:
            await self._app(scope, receive, send)
        except BatchAIError as error:
            await send_response(send, storage_error_response(error, "-"))
        except Exception as error:  # noqa: BLE001  a bug: logged under a number that the client gets
            await send_response(send, storage_error_response(to_api_error(scope, error), "-"))


class StorageAuthorization:
    """Requests without a valid key or SAS are rejected (401, 403).

    For others the scope gets the `call` without its body, the `sender` of that, and the `authorized` request.
    """

    def __init__(self, app: ASGIApp, router: StorageRouter, threads: ThreadPool) -> None:
        self._app, self._router, self._threads = app, router, threads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        call = scope["call"] = parse_head(scope)
        address, is_secure = client_address(scope), HTTPConnection(scope).url.scheme == "https"
        caller = RequestOrigin(datetime.now(timezone.utc), address, is_secure)
        host = call.headers.get("host", "")
        authorized = await self._threads.run(partial(self._router.authorize, call, host, caller))
        scope["authorized"] = authorized
        scope["sender"] = BodySender(f"{authorized.principal} at {address}", address)
        await self._app(scope, receive, send)


class StorageEndpoint:
    """The innermost application: runs the handler of the authorized request in a thread."""

    def __init__(self, threads: ThreadPool) -> None:
        self._threads = threads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        authorized: AuthorizedRequest = scope["authorized"]
        response: ApiResponse = await self._threads.run(partial(authorized.respond, scope["call"]))
        await send_response(send, response)


def _version(call: ApiCall | None) -> str:
    asked = call.headers.get("x-ms-version") or call.query.get("sv") or "" if call else ""
    return asked if _DATE.fullmatch(asked) else _DEFAULT_VERSION
