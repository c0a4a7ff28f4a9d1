"""The routes of Azure Resource Manager around Batch AI."""

from __future__ import annotations

from batchai_magics.server.arm import resource_groups, storage_accounts, subscriptions
from batchai_magics.server.handler_context import Route

_SUBSCRIPTION = "/subscriptions/{subscription}"
_GROUP = f"{_SUBSCRIPTION}/resourceGroups/{{group}}"
_STORAGE = f"{_SUBSCRIPTION}/providers/Microsoft.Storage"
_ACCOUNTS = f"{_GROUP}/providers/Microsoft.Storage/storageAccounts"
_ACCOUNT = f"{_ACCOUNTS}/{{account}}"
_ROLES = "providers/Microsoft.Authorization"
_SCOPES = (_SUBSCRIPTION, _GROUP)


def _role_routes(scope: str) -> tuple[Route, ...]:
    assignment = f"{scope}/{_ROLES}/roleAssignments/{{assignment}}"
    return (
        Route("GET", f"{scope}/{_ROLES}/roleDefinitions", subscriptions.list_role_definitions),
        Route("GET", f"{scope}/{_ROLES}/roleAssignments", subscriptions.list_role_assignments),
        Route("PUT", assignment, subscriptions.assign_role),
        Route("DELETE", assignment, subscriptions.delete_role_assignment),
    )


ROUTES = (
    Route("GET", "/tenants", subscriptions.list_tenants),
    Route("GET", "/subscriptions", subscriptions.list_subscriptions),
    Route("GET", _SUBSCRIPTION, subscriptions.show_subscription),
    Route("GET", f"{_SUBSCRIPTION}/locations", subscriptions.list_locations),
    Route("GET", f"{_SUBSCRIPTION}/operationresults/{{operation}}", resource_groups.operation_result),
    Route("GET", f"{_SUBSCRIPTION}/resourceGroups", resource_groups.list_all),
    Route("HEAD", _GROUP, resource_groups.exists),
    Route("GET", _GROUP, resource_groups.show),
    Route("PUT", _GROUP, resource_groups.create),
    Route("PATCH", _GROUP, resource_groups.update),
    Route("DELETE", _GROUP, resource_groups.delete),
    Route("GET", f"{_STORAGE}/storageAccounts", storage_accounts.list_all),
    Route("POST", f"{_STORAGE}/checkNameAvailability", storage_accounts.check_name),
    Route("GET", _ACCOUNTS, storage_accounts.list_all),
    Route("PUT", _ACCOUNT, storage_accounts.create),
    Route("GET", _ACCOUNT, storage_accounts.show),
    Route("DELETE", _ACCOUNT, storage_accounts.delete),
    Route("POST", f"{_ACCOUNT}/listKeys", storage_accounts.list_keys),
    Route("POST", f"{_ACCOUNT}/regenerateKey", storage_accounts.regenerate_key),
    *(route for scope in _SCOPES for route in _role_routes(scope)),
    Route("GET", f"{_SUBSCRIPTION}/providers", subscriptions.list_providers),
    Route("GET", f"{_SUBSCRIPTION}/providers/{{namespace}}", subscriptions.show_provider),
    Route("POST", f"{_SUBSCRIPTION}/providers/{{namespace}}/register", subscriptions.show_provider),
    Route("POST", f"{_SUBSCRIPTION}/providers/{{namespace}}/unregister", subscriptions.show_provider),
)
