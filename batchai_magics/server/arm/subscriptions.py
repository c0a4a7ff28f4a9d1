"""The subscription with its tenant and location (one of each), its resource providers and role assignments.

Role assignments are accepted as tutorials expect, and grant or deny nothing.
"""

from __future__ import annotations

import re
import uuid
from typing import Any

from batchai_magics.errors import did_you_mean
from batchai_magics.server.api_call import ApiCall, ApiError, ApiResponse
from batchai_magics.server.handler_context import HandlerContext

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
    wanted = call.parts["namespace"]
    name = next((name for name in _RESOURCE_TYPES if name.lower() == wanted.lower()), None)
    if name is None:
        guess = did_you_mean(wanted, _RESOURCE_TYPES)
        message = f"The resource namespace '{wanted}' is invalid. {guess}".rstrip()
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
    """Lists the roles named in the filter, whichever they are."""
    names = _QUOTED.findall(call.query.get("$filter", "").replace("+", " "))
    return ApiResponse(data={"value": [_role_definition(context, name) for name in names or ["Contributor"]]})


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


def _role_definition(context: HandlerContext, name: str) -> dict[str, Any]:
    number = uuid.uuid5(uuid.NAMESPACE_DNS, name.lower())
    scope = f"/subscriptions/{context.subscription}"
    return {
        "id": f"{scope}/providers/Microsoft.Authorization/roleDefinitions/{number}",
        "name": str(number),
        "type": "Microsoft.Authorization/roleDefinitions",
        "properties": {"roleName": name, "type": "BuiltInRole", "assignableScopes": [scope]},
    }
