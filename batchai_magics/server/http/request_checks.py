"""The head of a request as an `ApiCall`, and the checks before its body is read."""

from __future__ import annotations

import re

from starlette.requests import Request

from batchai_magics.server.access.access_control import Authenticator
from batchai_magics.server.api_call import ApiCall, ApiError, User, decode_url_text, parse_query
from batchai_magics.server.batchai.batchai_responses import API_VERSION

_VERSION = re.compile(r"\d{4}-\d\d-\d\d(-[a-z]+)?", re.IGNORECASE)


def parse_head(request: Request) -> ApiCall:
    """The request without its body, which is not read, and before its user is known.

    Raises ApiError (400) for a path or query that is not UTF-8.
    """
    path = raw_path(request)
    decode_url_text(path, "The path of the request")
    headers = {name.lower(): value for name, value in request.headers.items()}
    return ApiCall(
        method=request.method,
        path=path.decode("ascii", "replace"),
        query=parse_query(bytes(request.scope.get("query_string", b""))),
        headers=headers,
        origin=f"{request.scope.get('scheme', 'http')}://{headers.get('host', '')}",
        user=User("nobody"),
    )


def raw_path(request: Request) -> bytes:
    """The path as received, percent-encoded."""
    return bytes(request.scope.get("raw_path") or request.scope["path"].encode()).partition(b"?")[0]


def first_segment(request: Request) -> str:
    """The first segment of the path, in lower case."""
    return raw_path(request).decode("ascii", "replace").strip("/").partition("/")[0].lower()


def has_known_host(request: Request, authenticator: Authenticator) -> bool:
    """Whether a request has exactly one `Host` header, which names this server."""
    hosts = request.headers.getlist("host")
    return len(hosts) == 1 and authenticator.accepts_host(hosts[0])


def check_api_version(call: ApiCall, location: str, *, is_batchai: bool) -> None:
    """Raises ApiError (400) without a supported `api-version`: for Batch AI, the last published one.

    `is_batchai` comes from the route: the registration of the provider has its name in the path too, and
    the version of Azure Resource Manager.
    """
    version = call.query.get("api-version", "")
    if not version:
        message = "The api-version query parameter (?api-version=) is required for all requests."
        raise ApiError(400, "MissingApiVersionParameter", message)
    if is_batchai and version != API_VERSION:
        kinds = call.path.lower().rpartition("/microsoft.batchai/")[2].split("/")[::2]
        text = (
            f"No registered resource provider found for location '{location}' and API version '{version}' for"
            f" type '{'/'.join(kinds)}'. The supported api-versions are '{API_VERSION}'."
        )
        raise ApiError(400, "NoRegisteredProviderFound", text)
    if not _VERSION.fullmatch(version):
        raise ApiError(400, "InvalidApiVersionParameter", f"The api-version '{version}' is invalid.")
