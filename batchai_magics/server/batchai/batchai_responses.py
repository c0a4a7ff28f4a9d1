"""Responses of the Batch AI API: resources with service defaults, pages of lists, long-running operations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode

from batchai_magics.backends.base import Page
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import NOTES, Cluster, JobResource, Resource, Workspace
from batchai_magics.models.response_object import ProvisioningState
from batchai_magics.server.api_call import ApiCall, ApiError, ApiResponse
from batchai_magics.server.handler_context import HandlerContext
from batchai_magics.server.operations import AsyncOperation

_STATE_PROPERTIES = (  # properties that are not part of the description
    "allocationState",
    "allocationStateTransitionTime",
    "currentNodeCount",
    "errors",
    "executionInfo",
    "executionState",
    "executionStateTransitionTime",
    "nodeStateCounts",
    "provisioningState",
    "provisioningStateTransitionTime",
    "batchaiRanks",
)


def resource_json(context: HandlerContext, resource: Resource) -> dict[str, Any]:
    """The JSON of a resource, with the defaults that the service filled in."""
    data = resource.to_wire()
    properties = data["properties"]
    if isinstance(getattr(resource, "spec", None), ClusterSpec):
        _fill_file_modes((properties.get("nodeSetup") or {}).get("mountVolumes") or {})
    _fill_file_modes(properties.get("mountVolumes") or {})
    if context.operations.is_deleting(resource.id):
        properties["provisioningState"] = ProvisioningState.DELETING.value
    return data


def resource_response(context: HandlerContext, resource: Resource) -> ApiResponse:
    """The response showing one resource, with its ETag and creation time."""
    data = resource_json(context, resource)
    created = resource.provisioning.created.strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = {"ETag": etag(data), "Last-Modified": created}
    notes = resource.notes if isinstance(resource, (Cluster, JobResource)) else ()
    return ApiResponse(data={**data, NOTES: list(notes)} if notes else data, headers=headers)


def etag(data: Mapping[str, Any]) -> str:
    """An ETag of the description; it ignores state."""
    properties = {key: value for key, value in data["properties"].items() if key not in _STATE_PROPERTIES}
    text = json.dumps({**data, "properties": properties}, sort_keys=True)
    return f'"0x{hashlib.sha256(text.encode()).hexdigest()[:15].upper()}"'


def _fill_file_modes(volumes: Mapping[str, Any]) -> None:
    for share in volumes.get("azureFileShares") or ():
        share.setdefault("fileMode", "0777")
        share.setdefault("directoryMode", "0777")


MAX_PAGE_SIZE = 1000
_TOKEN = "$skiptoken"


def requested_page(call: ApiCall) -> Page:
    """The page that a request asks for; only the backend knows the form of its tokens."""
    size = call.integer_parameter("maxresults", MAX_PAGE_SIZE, minimum=1, maximum=MAX_PAGE_SIZE)
    return Page(size, call.query.get(_TOKEN, ""))


def page_number(page: Page) -> int | None:
    """The number in the token of a list that the server divides itself; ApiError (400) for another token."""
    token = page.after
    if token and not (token.isascii() and token.isdigit() and len(token) < 19):
        raise ApiError(400, "InvalidSkipToken", f"The $skiptoken {token!r} is not from this service.")
    return int(token) if token else None


def page_response(call: ApiCall, items: Sequence[Any], token: str | None) -> ApiResponse:
    """A page of a list; `token` is where the next one starts, None on the last."""
    data: dict[str, Any] = {"value": list(items)}
    if token:
        query = {**call.query, _TOKEN: token}
        data["nextLink"] = call.link(call.path, urlencode(query, safe="$", quote_via=quote))
    return ApiResponse(data=data)


API_VERSION = "2018-05-01"
# All clients default to 30 s, also for 0.
RETRY_S = "1"


def accepted_response(context: HandlerContext, call: ApiCall, operation: AsyncOperation) -> ApiResponse:
    """202 with both polling headers. Their names are swapped compared to Azure's usual ones, as recorded."""
    resources = context.backend.status([call.id(Kind.WORKSPACE)]).states.values()
    name = next((resource.location for resource in resources if isinstance(resource, Workspace)), "")
    location = quote(name.replace(" ", "").lower()) or context.location  # as URLs spell it: `northeurope`
    query = f"api-version={API_VERSION}"
    headers = {
        "Location": call.link(_operation_path(context, location, "operationstatuses", operation), query),
        "Azure-AsyncOperation": call.link(
            _operation_path(context, location, "operationresults", operation), query
        ),
        "Retry-After": RETRY_S,
    }
    return ApiResponse(202, headers=headers)


def operation_result(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Shows an operation."""
    operation = _find_operation(context, call)
    return _operation_response(context, call, operation, 200)


def operation_status(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Shows an operation, with 202 while it runs: for clients that check only the status."""
    operation = _find_operation(context, call)
    return _operation_response(context, call, operation, 202 if operation.ended is None else 200)


def _find_operation(context: HandlerContext, call: ApiCall) -> AsyncOperation:
    name = call.parts["operation"]
    operation = context.operations.find(name)
    if operation is None:
        raise ApiError(404, "OperationNotFound", f"The specified operation {name} is not found")
    return operation


def _operation_response(
    context: HandlerContext, call: ApiCall, operation: AsyncOperation, status: int
) -> ApiResponse:
    url = f"{call.origin}{_operation_path(context, call.parts['location'], 'operationresults', operation)}"
    response = ApiResponse(status, operation.to_wire(url))
    if operation.ended is not None:
        return response
    return replace(response.with_headers(Retry_After=RETRY_S), is_news=False)


def _operation_path(context: HandlerContext, location: str, word: str, operation: AsyncOperation) -> str:
    scope = f"/subscriptions/{context.subscription}/providers/Microsoft.BatchAI"
    return f"{scope}/locations/{location}/{word}/{operation.name}"
