"""The head of a request as an `ApiCall`, who sent it, and the checks before its body is read."""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from batchai_magics.server.access.access_control import Authenticator
from batchai_magics.server.api_call import ApiCall, ApiError, User, decode_url_text, parse_query
from batchai_magics.server.batchai.batchai_responses import API_VERSION
from batchai_magics.server.http.request_bodies import BodySender


def check_url_encoding(scope: Scope) -> None:
    """Raises ApiError for a path or query that is not UTF-8; `parse_head` requires it."""
    decode_url_text(_raw_path(scope), "The path of the request")
    parse_query(bytes(scope.get("query_string", b"")))


def parse_head(scope: Scope) -> ApiCall:
    """The request without its body, which is not read."""
    request = HTTPConnection(scope)
    headers = {name.lower(): value for name, value in request.headers.items()}
    return ApiCall(
        method=scope["method"],
        path=raw_path(scope),
        query=parse_query(bytes(scope.get("query_string", b""))),
        headers=headers,
        origin=f"{scope.get('scheme', 'http')}://{headers.get('host', '')}",
        parts=dict(request.path_params),
        user=scope.get("user") or User("nobody"),
    )


def client_address(scope: Scope) -> str:
    """The address of the connection's client."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def raw_path(scope: Scope) -> str:
    """The path as received, percent-encoded."""
    return _raw_path(scope).decode("ascii", "replace")


def first_segment(scope: Scope) -> str:
    """The first segment of the path, in lower case."""
    return raw_path(scope).strip("/").partition("/")[0].lower()


def _raw_path(scope: Scope) -> bytes:
    return bytes(scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]


_VERSION = re.compile(r"\d{4}-\d\d-\d\d(-[a-z]+)?", re.IGNORECASE)


class HostCheck:
    """Requests for hosts that this server does not have, for none or for several are rejected (421)."""

    def __init__(self, app: ASGIApp, gate: Authenticator) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        hosts = Headers(scope=scope).getlist("host")
        if len(hosts) != 1 or not self._gate.accepts_host(hosts[0]):
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
        call: ApiCall = scope["call"]
        version = call.query.get("api-version", "")
        if not version:
            message = "The api-version query parameter (?api-version=) is required for all requests."
            raise ApiError(400, "MissingApiVersionParameter", message)
        if self._is_batchai and version != API_VERSION:
            kinds = call.path.lower().rpartition("/microsoft.batchai/")[2].split("/")[::2]
            text = (
                f"No registered resource provider found for location '{self._location}' and API version"
                f" '{version}' for type '{'/'.join(kinds)}'. The supported api-versions are '{API_VERSION}'."
            )
            raise ApiError(400, "NoRegisteredProviderFound", text)
        if not _VERSION.fullmatch(version):
            raise ApiError(400, "InvalidApiVersionParameter", f"The api-version '{version}' is invalid.")
        await self._app(scope, receive, send)
