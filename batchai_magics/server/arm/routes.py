"""What there is around Batch AI, by method and path."""

from __future__ import annotations

from batchai_magics.server.arm import accounts, groups, providers, roles, subscriptions
from batchai_magics.server.service import Route

_SUBSCRIPTION = "/subscriptions/{subscription}"
_GROUP = f"{_SUBSCRIPTION}/resourceGroups/{{group}}"
_STORAGE = f"{_SUBSCRIPTION}/providers/Microsoft.Storage"
_ACCOUNTS = f"{_GROUP}/providers/Microsoft.Storage/storageAccounts"
_ACCOUNT = f"{_ACCOUNTS}/{{account}}"
_ROLES = "providers/Microsoft.Authorization"
_SCOPES = (_SUBSCRIPTION, _GROUP)


def _of_scope(scope: str) -> tuple[Route, ...]:
    assignment = f"{scope}/{_ROLES}/roleAssignments/{{assignment}}"
    return (
        Route("GET", f"{scope}/{_ROLES}/roleDefinitions", roles.list_definitions),
        Route("GET", f"{scope}/{_ROLES}/roleAssignments", roles.list_assignments),
        Route("PUT", assignment, roles.assign),
        Route("DELETE", assignment, roles.drop),
    )


ROUTES = (
    Route("GET", "/tenants", subscriptions.list_tenants),
    Route("GET", "/subscriptions", subscriptions.list_all),
    Route("GET", _SUBSCRIPTION, subscriptions.show),
    Route("GET", f"{_SUBSCRIPTION}/locations", subscriptions.list_locations),
    Route("GET", f"{_SUBSCRIPTION}/operationresults/{{operation}}", groups.operation),
    Route("GET", f"{_SUBSCRIPTION}/resourceGroups", groups.list_all),
    Route("HEAD", _GROUP, groups.exists),
    Route("GET", _GROUP, groups.show),
    Route("PUT", _GROUP, groups.create),
    Route("PATCH", _GROUP, groups.update),
    Route("DELETE", _GROUP, groups.delete),
    Route("GET", f"{_STORAGE}/storageAccounts", accounts.list_all),
    Route("POST", f"{_STORAGE}/checkNameAvailability", accounts.check_name),
    Route("GET", _ACCOUNTS, accounts.list_all),
    Route("PUT", _ACCOUNT, accounts.create),
    Route("GET", _ACCOUNT, accounts.show),
    Route("DELETE", _ACCOUNT, accounts.delete),
    Route("POST", f"{_ACCOUNT}/listKeys", accounts.list_keys),
    Route("POST", f"{_ACCOUNT}/regenerateKey", accounts.renew_key),
    *(route for scope in _SCOPES for route in _of_scope(scope)),
    Route("GET", f"{_SUBSCRIPTION}/providers", providers.list_all),
    Route("GET", f"{_SUBSCRIPTION}/providers/{{namespace}}", providers.show),
    Route("POST", f"{_SUBSCRIPTION}/providers/{{namespace}}/register", providers.show),
    Route("POST", f"{_SUBSCRIPTION}/providers/{{namespace}}/unregister", providers.show),
)
