"""Responses and errors as HTTP; responses reduced to the published API."""

from __future__ import annotations

import logging
import traceback
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from batchai_magics.errors import BatchAIError, is_disk_full
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.server.api_call import (
    INTERNAL_ERROR,
    JSON,
    ApiError,
    ApiResponse,
    disk_full_error,
    encode_json,
    error_body,
    status_of,
)
from batchai_magics.server.http.request_checks import raw_path
from batchai_magics.server.http.request_limits import ThreadPool

OPENAPI_PATH = "openapi.json"


@cache
def openapi_document() -> Mapping[str, Any]:
    """The OpenAPI 3.1 document of the 29 published operations, without our extensions."""
    import yaml

    text = (files("batchai_magics.server") / "openapi.yaml").read_text(encoding="utf-8")
    document: Mapping[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return document


_EXTENSION_PREFIX = "batchai"  # prefix of our own keys and operations
_USER_DEFINED = ("tags",)  # keys chosen by users
_EXTENSION_DETAILS = frozenset({"failedRank", "failedNode", "exitCode"})  # of an error, not the service's
_FILE_SERVER, _CLUSTER = "/fileservers", "/clusters"  # suffixes of types


def is_extension(path: str) -> bool:
    """Whether a route is one of our own operations, which only our own client uses."""
    return path.rpartition("/")[2].startswith(_EXTENSION_PREFIX)


def published_response(response: ApiResponse) -> ApiResponse:
    """The response without our extension fields."""
    return response if response.data is None else replace(response, data=_published(response.data))


def _published(data: Any) -> Any:
    if isinstance(data, list):
        return [_published(item) for item in data]
    if not isinstance(data, dict):
        return data
    published = {
        key: value if key in _USER_DEFINED else _published(value)
        for key, value in data.items()
        if not key.startswith(_EXTENSION_PREFIX)
    }
    if "code" in published and "details" in published:
        details = [item for item in published.pop("details") if item.get("name") not in _EXTENSION_DETAILS]
        published |= {"details": details} if details else {}
    kind = str(published.get("type", ""))
    return _with_subnet(published) if kind.endswith((_FILE_SERVER, _CLUSTER)) else published


def _with_subnet(resource: dict[str, Any]) -> dict[str, Any]:
    """A file server, or a cluster that mounts one, with a made-up subnet in the service's format."""
    properties = resource.get("properties") or {}
    if properties.get("subnet"):
        return resource
    mounts = ((properties.get("nodeSetup") or {}).get("mountVolumes") or {}).get("fileServers") or ()
    ids = [mount["fileServer"]["id"] for mount in mounts]
    server = resource["id"] if resource["type"].endswith(_FILE_SERVER) else next(iter(ids), "")
    if not server:
        return resource
    id = ResourceId.parse(server)
    name = uuid.uuid5(uuid.NAMESPACE_URL, id.key)
    group = f"/subscriptions/{id.subscription}/resourceGroups/fileserverrg-{name}"
    subnet = f"{group}/providers/Microsoft.Network/virtualNetworks/{name}vnet/subnets/Subnet-1"
    return {**resource, "properties": {**properties, "subnet": {"id": subnet}}}


LOG = logging.getLogger("batchai.server")
_COMMON_HEADERS = {"X-Content-Type-Options": "nosniff"}
_NO_CACHE_HEADERS = {"Cache-Control": "no-cache", "Pragma": "no-cache", "Expires": "-1"}


def to_starlette(response: ApiResponse, threads: ThreadPool, *, is_file: bool = False) -> Response:
    """The Starlette response with a request id; one that cannot be encoded becomes a 500.

    Files have their own caching headers, resources (without `is_file`) are never cached.
    """
    common_headers = _COMMON_HEADERS if is_file else {**_COMMON_HEADERS, **_NO_CACHE_HEADERS}
    try:
        return _starlette_response(response, threads, common_headers)
    except (ValueError, TypeError):  # UnicodeError is a ValueError
        number = uuid.uuid4().hex[:12]
        LOG.exception("defect %s: an answer that cannot be encoded", number)
        text = f"The server could not encode its answer. Its log says why, under {number}."
        return _starlette_response(
            ApiResponse(500, error_body(ApiError(500, INTERNAL_ERROR, text))), threads, common_headers
        )


def _starlette_response(
    response: ApiResponse, threads: ThreadPool, common_headers: Mapping[str, str]
) -> Response:
    headers = {**common_headers, **response.headers, "request-id": str(uuid.uuid4())}
    headers["x-ms-request-id"] = headers["request-id"]
    if response.chunks is not None:
        return StreamingResponse(
            threads.iterate(response.chunks), status_code=response.status, headers=headers
        )
    if response.data is not None:
        headers["Content-Type"] = JSON
        return Response(encode_json(response.data), status_code=response.status, headers=headers)
    return Response(response.body or b"", status_code=response.status, headers=headers)


async def response_or_error(
    request: Request,
    respond: Callable[[], Awaitable[ApiResponse]],
    render: Callable[[BatchAIError], ApiResponse] | None = None,
) -> ApiResponse:
    """The response to a request, or for an exception the error response that `render` makes."""
    render = render or error_response
    try:
        return await respond()
    except BatchAIError as error:
        return render(error)
    except Exception as error:  # noqa: BLE001  a bug: logged under a number that the client gets
        return render(to_api_error(request, error))


def error_response(error: BatchAIError) -> ApiResponse:
    """The response for an error."""
    status = status_of(error)
    headers = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}.get(status, {})
    return ApiResponse(status, error_body(error), headers)


def to_api_error(request: Request, error: Exception) -> BatchAIError:
    """The error to send for a foreign exception; unexpected ones are logged under a number."""
    if isinstance(error, OSError) and is_disk_full(error):
        return disk_full_error()
    number = uuid.uuid4().hex[:12]
    path = raw_path(request).decode("ascii", "replace")
    LOG.error("defect %s at %s %s\n%s", number, request.method, path, traceback.format_exc())
    message = f"The server could not do this. Its log says why, under {number}."
    return ApiError(500, INTERNAL_ERROR, message)
