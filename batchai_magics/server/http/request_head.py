"""The head of a request as an `ApiCall`, and who sent it. Bodies are in `request_bodies`."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.types import Scope

from batchai_magics.server.api_call import ApiCall, User, decode_url_text, parse_query


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
        origin=f"{request.url.scheme}://{headers.get('host', '')}",
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
