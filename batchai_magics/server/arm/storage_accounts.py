"""Storage accounts and their keys."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from batchai_magics.backends.base import ACCOUNTS
from batchai_magics.errors import NotFoundError, SpecError
from batchai_magics.models.resource_ids import check_account_name, check_group_name
from batchai_magics.models.subscription import StorageAccount
from batchai_magics.server.api_call import ApiCall, ApiError, ApiResponse
from batchai_magics.server.handler_context import HandlerContext, show_or_none
from batchai_magics.server.http.response_encoder import OPENAPI_PATH
from batchai_magics.server.storage.storage_resource import OWN_ACCOUNT

# First path segments that this server uses otherwise.
RESERVED_PATHS = ("subscriptions", "providers", "tenants", "healthz", "metrics", "msi", OPENAPI_PATH)
_SKU = "Standard_LRS"
_KEY_NUMBERS = {"key1": 1, "key2": 2}


def create(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Creates an account, or returns the existing one of that name and group."""
    name, body = check_account_name(call.parts["account"]), call.json()
    if name in RESERVED_PATHS:
        raise ApiError(
            409, "StorageAccountAlreadyTaken", f"The storage account named {name} is already taken."
        )
    group, location = check_group_name(call.parts["group"]), body.get("location") or context.location
    if not isinstance(location, str):
        raise ApiError(400, "InvalidRequestContent", "location must be a text, such as eastus.")
    sku = body.get("sku") or {}
    sku = sku.get("name", _SKU) if isinstance(sku, Mapping) else sku
    if not isinstance(sku, str):
        raise ApiError(400, "InvalidRequestContent", "sku.name must be a text, such as Standard_LRS.")
    requested = StorageAccount(context.subscription, group, name, location, sku)
    is_new = show_or_none(ACCOUNTS.of(context.backend).show, name) is None
    with (
        context.owners.record_creation(_owner_key(context, requested), call.user.name)
        if is_new
        else nullcontext()
    ):
        account = ACCOUNTS.of(context.backend).create(name, group, requested.location, requested.sku)
    return ApiResponse(data=_account_json(call, account))


def show(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Shows an account."""
    return ApiResponse(data=_account_json(call, _account(context, call)))


def list_all(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists the accounts of a group, or of the subscription."""
    accounts = ACCOUNTS.of(context.backend).list(call.parts.get("group"))
    return ApiResponse(data={"value": [_account_json(call, account) for account in accounts]})


def delete(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Deletes an account with its shares and containers; 204 if it does not exist."""
    try:
        account = _account(context, call)
    except NotFoundError:
        return ApiResponse(204)
    context.check_owner(call, _owner_key(context, account))
    ACCOUNTS.of(context.backend).delete(account.name)
    context.owners.forget(_owner_key(context, account))
    return ApiResponse(200)


def list_keys(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Lists the two keys of an account."""
    name = _account_name(context, call)
    return _keys_response(context, name)


def regenerate_key(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Regenerates key 1 or 2 and returns both."""
    name, number = _account_name(context, call), _KEY_NUMBERS.get(str(call.json().get("keyName")))
    if number is None:
        raise ApiError(400, "InvalidValuesForRequestParameters", "keyName must be key1 or key2.")
    if name == OWN_ACCOUNT and not call.user.is_admin:
        raise ApiError(403, "AuthorizationFailed", "The keys of this account are the administrator's.")
    if name != OWN_ACCOUNT:
        context.check_owner(call, _owner_key(context, _account(context, call)))
    context.keys.regenerate(name, number)
    return _keys_response(context, name)


def check_name(context: HandlerContext, call: ApiCall) -> ApiResponse:
    """Whether an account name is valid and available."""
    name = str(call.json().get("name", ""))
    try:
        check_account_name(name)
    except SpecError:
        message = f"{name} is not a valid storage account name. Use 3 to 24 small letters and digits."
        return ApiResponse(data={"nameAvailable": False, "reason": "AccountNameInvalid", "message": message})
    existing = show_or_none(ACCOUNTS.of(context.backend).show, name)
    if existing or name in (*RESERVED_PATHS, OWN_ACCOUNT):
        message = f"The storage account named {name} is already taken."
        return ApiResponse(data={"nameAvailable": False, "reason": "AlreadyExists", "message": message})
    return ApiResponse(data={"nameAvailable": True})


def _account_name(context: HandlerContext, call: ApiCall) -> str:
    """The account whose keys are requested; the server's own account exists in every group."""
    if call.parts["account"].lower() == OWN_ACCOUNT:
        return OWN_ACCOUNT
    return _account(context, call).name


def _account(context: HandlerContext, call: ApiCall) -> StorageAccount:
    name, group = call.parts["account"].lower(), call.parts["group"]
    account = show_or_none(ACCOUNTS.of(context.backend).show, name)
    if account is None or account.group.lower() != group.lower():
        path = f"Microsoft.Storage/storageAccounts/{name}"
        message = f"The Resource '{path}' under resource group '{group}' was not found."
        raise NotFoundError(message, code="ResourceNotFound")
    return account


def _keys_response(context: HandlerContext, name: str) -> ApiResponse:
    values = enumerate(context.keys.of(name), start=1)
    keys = [{"keyName": f"key{number}", "value": value, "permissions": "FULL"} for number, value in values]
    return ApiResponse(data={"keys": keys})


def _owner_key(context: HandlerContext, account: StorageAccount) -> str:
    group = f"/subscriptions/{context.subscription}/resourceGroups/{account.group}"
    return f"{group}/providers/Microsoft.Storage/storageAccounts/{account.name}".lower()


def _account_json(call: ApiCall, account: StorageAccount) -> dict[str, Any]:
    """The account as Azure shows it."""
    data = account.to_wire()
    address = f"{call.origin}/{account.name}"
    return {
        **{name: data[name] for name in ("id", "kind", "location", "name", "sku", "type")},
        "properties": {
            "primaryEndpoints": {"blob": address, "file": address},
            "primaryLocation": account.location,
            "provisioningState": "Succeeded",
            "statusOfPrimary": "available",
        },
    }
