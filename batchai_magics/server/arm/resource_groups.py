"""Resource groups."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from batchai_magics.backends.base import GROUPS, Groups
from batchai_magics.errors import NotFoundError
from batchai_magics.models.resource_ids import check_group_name
from batchai_magics.models.subscription import ResourceGroup
from batchai_magics.server.api_call import ApiCall, ApiResponse
from batchai_magics.server.api_errors import ApiError
from batchai_magics.server.operations import DELETE_GROUP
from batchai_magics.server.service import Service


def create(service: Service, call: ApiCall) -> ApiResponse:
    """Creates a group, or updates the tags of an existing one."""
    service.check_subscription(call)
    groups, name, body = _groups(service), _group_name(call), call.json()
    existing = _find(service, name)
    tags = parse_tags(body)
    if existing:
        if tags is not None and tags != dict(existing.tags):
            service.check_owner(call, _owner_key(service, name))
        return ApiResponse(data=_group_json(groups.create(name, existing.location, tags)))
    location = body.get("location")
    if not isinstance(location, str) or not location:
        message = "The location property is required for this definition."
        raise ApiError(400, "LocationRequired", message)
    with service.owners.record_creation(_owner_key(service, name), call.user.name):
        return ApiResponse(201, _group_json(groups.create(name, location, tags)))


def update(service: Service, call: ApiCall) -> ApiResponse:
    """Replaces the tags of a group."""
    service.check_subscription(call)
    groups, name = _groups(service), _group_name(call)
    group = groups.show(name)
    service.check_owner(call, _owner_key(service, name))
    return ApiResponse(data=_group_json(groups.create(name, group.location, parse_tags(call.json()))))


def show(service: Service, call: ApiCall) -> ApiResponse:
    """Shows a group."""
    service.check_subscription(call)
    return ApiResponse(data=_group_json(_groups(service).show(_group_name(call))))


def exists(service: Service, call: ApiCall) -> ApiResponse:
    """Whether a group exists: 204 or 404."""
    service.check_subscription(call)
    return ApiResponse(204 if _find(service, _group_name(call)) else 404)


def list_all(service: Service, call: ApiCall) -> ApiResponse:
    """Lists all groups."""
    service.check_subscription(call)
    return ApiResponse(data={"value": [_group_json(group) for group in _groups(service).list()]})


def delete(service: Service, call: ApiCall) -> ApiResponse:
    """Starts deleting a group and everything in it."""
    service.check_subscription(call)
    name, key = _group_name(call), _owner_key(service, _group_name(call))
    _groups(service).show(name)
    service.check_owner(call, key)
    operation = service.operations.start(DELETE_GROUP, name, partial(service.owners.forget, key))
    path = f"/subscriptions/{service.subscription}/operationresults/{operation.name}"
    location = call.link(path, "api-version=2018-05-01")
    return ApiResponse(202, headers={"Location": location, "Retry-After": "1"})


def operation_result(service: Service, call: ApiCall) -> ApiResponse:
    """The result of deleting a group: 202 until it is gone, then 200."""
    service.check_subscription(call)
    found = service.operations.find(call.parts["operation"])
    if found is None:
        raise ApiError(404, "OperationNotFound", "The specified operation is not found.")
    if found.ended is None:
        url = call.link(call.path, "api-version=2018-05-01")
        return ApiResponse(202, headers={"Location": url, "Retry-After": "1"}, is_news=False)
    return ApiResponse(409, {"error": dict(found.error)}) if found.error else ApiResponse(200)


def parse_tags(body: Mapping[str, Any]) -> dict[str, str] | None:
    """The tags of a description, None if it has none."""
    tags = body.get("tags")
    if tags is None:
        return None
    if not isinstance(tags, Mapping) or not all(isinstance(value, str) for value in tags.values()):
        raise ApiError(400, "InvalidRequestContent", "tags must be an object of texts.")
    return dict(tags)


def _find(service: Service, name: str) -> ResourceGroup | None:
    try:
        return _groups(service).show(name)
    except NotFoundError:
        return None


def _groups(service: Service) -> Groups:
    groups: Groups = GROUPS.of(service.backend)
    return groups


def _group_name(call: ApiCall) -> str:
    return check_group_name(call.parts["group"])


def _owner_key(service: Service, name: str) -> str:
    return f"/subscriptions/{service.subscription}/resourcegroups/{name}".lower()


def _group_json(group: ResourceGroup) -> dict[str, Any]:
    return {name: value for name, value in group.to_wire().items() if value is not None}
