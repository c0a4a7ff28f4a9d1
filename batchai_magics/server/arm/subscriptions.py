"""The subscription with its tenant and location, its resource groups, providers and role assignments.

Role assignments are accepted as tutorials expect, and grant or deny nothing.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

from batchai_magics.backends.base import GROUPS
from batchai_magics.errors import did_you_mean
from batchai_magics.models.resource_ids import check_group_name
from batchai_magics.models.subscription import ResourceGroup
from batchai_magics.server.api_call import ApiCall, ApiError, ApiResponse
from batchai_magics.server.handler_context import HandlerContext, show_or_none
from batchai_magics.server.operations import DELETE_GROUP

TENANT = "00000000-0000-0000-0000-000000000000"


def list_subscriptions(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists the one subscription."""
    return ApiResponse(data={"value": [_subscription(context)]})


def show_subscription(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Shows the subscription."""
    return ApiResponse(data=_subscription(context))


def list_tenants(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists the one tenant."""
    tenant = {"id": f"/tenants/{TENANT}", "tenantId": TENANT, "displayName": "batchai"}
    return ApiResponse(data={"value": [tenant]})


def list_locations(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists the one location."""
    location = {
        "id": f"/subscriptions/{context.subscription}/locations/{context.location}",
        "name": context.location,
        "displayName": context.location.capitalize(),
    }
    return ApiResponse(data={"value": [location]})


def _subscription(context: HandlerContext) -> dict[str, Any]:
    return {
        "id": f"/subscriptions/{context.subscription}",
        "authorizationSource": "RoleBased",
        "subscriptionId": context.subscription,
        "tenantId": TENANT,
        "displayName": context.backend.capabilities.name,
        "state": "Enabled",
    }


def create_group(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Creates a group, or updates the tags of an existing one."""
    groups, name, body = GROUPS.of(context.backend), _group_name(call), call.json()
    existing = show_or_none(groups.show, name)
    tags = parse_tags(body)
    if existing:
        if tags is not None and tags != dict(existing.tags):
            context.check_owner(call, _group_owner_key(context, name))
        return ApiResponse(data=_group_json(groups.create(name, existing.location, tags)))
    location = body.get("location")
    if not isinstance(location, str) or not location:
        message = "The location property is required for this definition."
        raise ApiError(400, "LocationRequired", message)
    with context.owners.record_creation(_group_owner_key(context, name), call.user.name):
        return ApiResponse(201, _group_json(groups.create(name, location, tags)))


def update_group(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Replaces the tags of a group."""
    groups, name = GROUPS.of(context.backend), _group_name(call)
    group = groups.show(name)
    context.check_owner(call, _group_owner_key(context, name))
    return ApiResponse(data=_group_json(groups.create(name, group.location, parse_tags(call.json()))))


def show_group(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Shows a group."""
    return ApiResponse(data=_group_json(GROUPS.of(context.backend).show(_group_name(call))))


def group_exists(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Whether a group exists: 204 or 404."""
    return ApiResponse(204 if show_or_none(GROUPS.of(context.backend).show, _group_name(call)) else 404)


def list_groups(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists all groups."""
    return ApiResponse(data={"value": [_group_json(group) for group in GROUPS.of(context.backend).list()]})


def delete_group(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Starts deleting a group and everything in it."""
    name = _group_name(call)
    GROUPS.of(context.backend).show(name)
    context.check_owner(call, _group_owner_key(context, name))
    target = f"/subscriptions/{context.subscription}/resourceGroups/{name}"
    operation = context.operations.start(DELETE_GROUP, target)
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


def _group_name(call: ApiCall) -> str:
    return check_group_name(call.parts["group"])


def _group_owner_key(context: HandlerContext, name: str) -> str:
    return f"/subscriptions/{context.subscription}/resourcegroups/{name}".lower()


def _group_json(group: ResourceGroup) -> dict[str, Any]:
    return {name: value for name, value in group.to_wire().items() if value is not None}


_RESOURCE_TYPES = {
    "Microsoft.BatchAI": (
        "workspaces",
        "workspaces/clusters",
        "workspaces/fileservers",
        "workspaces/experiments",
        "workspaces/experiments/jobs",
        "operations",
        "locations",
    ),
    "Microsoft.Batch": (),
    "Microsoft.Storage": ("storageAccounts", "checkNameAvailability"),
    "Microsoft.Resources": ("subscriptions", "resourceGroups"),
    "Microsoft.Authorization": ("roleAssignments", "roleDefinitions"),
    "Microsoft.Network": (),
}


def list_providers(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists all resource providers; all are registered."""
    return ApiResponse(data={"value": [_provider(context, name) for name in _RESOURCE_TYPES]})


def show_provider(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Shows a provider; also the response to `register` and `unregister`."""
    namespace = call.parts["namespace"]
    name = next((name for name in _RESOURCE_TYPES if name.lower() == namespace.lower()), None)
    if name is None:
        guess = did_you_mean(namespace, _RESOURCE_TYPES)
        message = f"The resource namespace '{namespace}' is invalid. {guess}".rstrip()
        raise ApiError(404, "InvalidResourceNamespace", message)
    return ApiResponse(data=_provider(context, name))


def _provider(context: HandlerContext, namespace: str) -> dict[str, Any]:
    types = [
        {"resourceType": kind, "locations": [context.location], "apiVersions": ["2018-05-01"]}
        for kind in _RESOURCE_TYPES[namespace]
    ]
    return {
        "id": f"/subscriptions/{context.subscription}/providers/{namespace}",
        "namespace": namespace,
        "registrationPolicy": "RegistrationFree",
        "registrationState": "Registered",
        "resourceTypes": types,
    }


_QUOTED = re.compile(r"'([^']*)'")


def list_role_definitions(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists the roles named in the filter; every name is a role."""
    names = _QUOTED.findall(call.query.get("$filter", "").replace("+", " "))
    scope, definitions = f"/subscriptions/{context.subscription}", []
    for name in names or ["Contributor"]:
        number = uuid.uuid5(uuid.NAMESPACE_DNS, name.lower())
        definitions.append(
            {
                "id": f"{scope}/providers/Microsoft.Authorization/roleDefinitions/{number}",
                "name": str(number),
                "type": "Microsoft.Authorization/roleDefinitions",
                "properties": {"roleName": name, "type": "BuiltInRole", "assignableScopes": [scope]},
            }
        )
    return ApiResponse(data={"value": definitions})


def list_role_assignments(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """An empty list: no assignment is stored."""
    return ApiResponse(data={"value": []})


def assign_role(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Echoes the assignment, which is not stored."""
    body = call.json()
    requested = body.get("properties", body)
    properties = dict(requested) if isinstance(requested, dict) else {}
    scope = call.path.lower().partition("/providers/microsoft.authorization")[0]
    return ApiResponse(
        201,
        {
            "id": call.path,
            "name": call.parts["assignment"],
            "type": "Microsoft.Authorization/roleAssignments",
            "properties": {**properties, "scope": scope},
        },
    )


def delete_role_assignment(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Always 204: no assignment is stored."""
    return ApiResponse(204)
