"""Resource groups."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from batchai_magics.backends.base import GROUPS, Groups
from batchai_magics.errors import NotFoundError
from batchai_magics.models.resource_ids import check_group_name
from batchai_magics.models.subscription import ResourceGroup
from batchai_magics.server.api_call import ApiCall, ApiError, ApiResponse
from batchai_magics.server.handler_context import HandlerContext
from batchai_magics.server.operations import DELETE_GROUP


def create(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Creates a group, or updates the tags of an existing one."""
    groups, name, body = _groups(context), _group_name(call), call.json()
    existing = _find(context, name)
    tags = parse_tags(body)
    if existing:
        if tags is not None and tags != dict(existing.tags):
            context.check_owner(call, _owner_key(context, name))
        return ApiResponse(data=_group_json(groups.create(name, existing.location, tags)))
    location = body.get("location")
    if not isinstance(location, str) or not location:
        message = "The location property is required for this definition."
        raise ApiError(400, "LocationRequired", message)
    with context.owners.record_creation(_owner_key(context, name), call.user.name):
        return ApiResponse(201, _group_json(groups.create(name, location, tags)))


def update(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Replaces the tags of a group."""
    groups, name = _groups(context), _group_name(call)
    group = groups.show(name)
    context.check_owner(call, _owner_key(context, name))
    return ApiResponse(data=_group_json(groups.create(name, group.location, parse_tags(call.json()))))


def show(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Shows a group."""
    return ApiResponse(data=_group_json(_groups(context).show(_group_name(call))))


def exists(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Whether a group exists: 204 or 404."""
    return ApiResponse(204 if _find(context, _group_name(call)) else 404)


def list_all(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists all groups."""
    return ApiResponse(data={"value": [_group_json(group) for group in _groups(context).list()]})


def delete(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Starts deleting a group and everything in it."""
    name, key = _group_name(call), _owner_key(context, _group_name(call))
    _groups(context).show(name)
    context.check_owner(call, key)
    operation = context.operations.start(DELETE_GROUP, name, partial(context.owners.forget, key))
    path = f"/subscriptions/{context.subscription}/operationresults/{operation.name}"
    location = call.link(path, "api-version=2018-05-01")
    return ApiResponse(202, headers={"Location": location, "Retry-After": "1"})


def operation_result(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """The result of deleting a group: 202 until it is gone, then 200."""
    operation = context.operations.find(call.parts["operation"])
    if operation is None:
        raise ApiError(404, "OperationNotFound", "The specified operation is not found.")
    if operation.ended is None:
        url = call.link(call.path, "api-version=2018-05-01")
        return ApiResponse(202, headers={"Location": url, "Retry-After": "1"}, is_news=False)
    return ApiResponse(409, {"error": dict(operation.error)}) if operation.error else ApiResponse(200)


def parse_tags(body: Mapping[str, Any]) -> dict[str, str] | None:
    """The tags of a description, None if it has none."""
    tags = body.get("tags")
    if tags is None:
        return None
    if not isinstance(tags, Mapping) or not all(isinstance(value, str) for value in tags.values()):
        raise ApiError(400, "InvalidRequestContent", "tags must be an object of texts.")
    return dict(tags)


def _find(context: HandlerContext, name: str) -> ResourceGroup | None:
    try:
        return _groups(context).show(name)
    except NotFoundError:
        return None


def _groups(context: HandlerContext) -> Groups:
    groups: Groups = GROUPS.of(context.backend)
    return groups


def _group_name(call: ApiCall) -> str:
    return check_group_name(call.parts["group"])


def _owner_key(context: HandlerContext, name: str) -> str:
    return f"/subscriptions/{context.subscription}/resourcegroups/{name}".lower()


def _group_json(group: ResourceGroup) -> dict[str, Any]:
    return {name: value for name, value in group.to_wire().items() if value is not None}
