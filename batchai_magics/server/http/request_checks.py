"""Middleware that rejects requests before their bodies are read: host, URL, token; and the API version."""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from batchai_magics.server.access.authentication import Authenticator
from batchai_magics.server.api_call import ApiCall
from batchai_magics.server.api_errors import ApiError
from batchai_magics.server.batchai.batchai_responses import API_VERSION
from batchai_magics.server.http.request_bodies import BodySender
from batchai_magics.server.http.request_head import check_url_encoding, client_address, parse_head

_VERSION = re.compile(r"\d{4}-\d\d-\d\d(-[a-z]+)?", re.IGNORECASE)


class HostCheck:
    """Requests for hosts that this server does not have are rejected (421)."""

    def __init__(self, app: ASGIApp, gate: Authenticator) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if not self._gate.accepts_host(Headers(scope=scope).get("host", "")):
            raise ApiError(421, "MisdirectedRequest", "This server does not have that name.")
        await self._app(scope, receive, send)


class UrlEncodingCheck:
    """Requests whose path or query is not UTF-8 are rejected (400)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        check_url_encoding(scope)
        await self._app(scope, receive, send)


class Authentication:
    """Requests without a valid token are rejected (401).

    For others the scope gets the `user`, the `call` without its body, and the `sender` of that.
    """

    def __init__(self, app: ASGIApp, gate: Authenticator) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        scope["user"] = self._gate.authenticate(Headers(scope=scope).get("authorization", ""))
        scope["call"] = parse_head(scope)
        scope["sender"] = BodySender(scope["user"].name, client_address(scope))
        await self._app(scope, receive, send)


class ApiVersionCheck:
    """Requests without a supported `api-version` are rejected (400); for Batch AI, the last published one."""

    def __init__(self, app: ASGIApp, *, location: str, is_batchai: bool) -> None:
        self._app, self._location, self._is_batchai = app, location, is_batchai

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        self._check(scope["call"])
        await self._app(scope, receive, send)

    def _check(self, call: ApiCall) -> None:
        version = call.query.get("api-version", "")
        if not version:
            message = "The api-version query parameter (?api-version=) is required for all requests."
            raise ApiError(400, "MissingApiVersionParameter", message)
        if self._is_batchai and version != API_VERSION:
            raise self._unsupported(call, version)
        if not _VERSION.fullmatch(version):
            raise ApiError(400, "InvalidApiVersionParameter", f"The api-version '{version}' is invalid.")

    def _unsupported(self, call: ApiCall, version: str) -> Exception:
        kinds = call.path.lower().rpartition("/microsoft.batchai/")[2].split("/")[::2]
        text = (
            f"No registered resource provider found for location '{self._location}' and API version"
            f" '{version}' for type '{'/'.join(kinds)}'. The supported api-versions are '{API_VERSION}'."
        )
        return ApiError(400, "NoRegisteredProviderFound", text)
