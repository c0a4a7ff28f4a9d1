"""What handlers work with: the `HandlerContext`, and the type of handlers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from batchai_magics.backends.base import Backend
from batchai_magics.errors import NotFoundError
from batchai_magics.server.access.access_control import UNKNOWN_OWNER, Owners
from batchai_magics.server.api_call import ApiCall, ApiError, ApiResponse
from batchai_magics.server.operations import Operations
from batchai_magics.server.storage.sas import AccountKeys
from batchai_magics.server.storage.storage_metadata import MetadataStore


@dataclass(frozen=True)
class HandlerContext:
    """A backend with the server's state. `group` is the only resource group of a backend without groups."""

    backend: Backend
    subscription: str
    location: str
    group: str
    operations: Operations
    owners: Owners
    keys: AccountKeys
    metadata: MetadataStore

    def check_subscription(self, call: ApiCall) -> None:
        """Raises ApiError (404), worded as Azure's gateway does, for another subscription than ours."""
        subscription = call.parts.get("subscription", self.subscription)
        if subscription.lower() != self.subscription.lower():
            message = f"The subscription '{subscription}' could not be found."
            raise ApiError(404, "SubscriptionNotFound", message)

    def is_owner(self, call: ApiCall, key: str) -> bool:
        """Whether the caller owns the resource; unowned ones belong to the administrator."""
        owner = self.owners.of(key)
        return owner == call.user.name or (owner == UNKNOWN_OWNER and call.user.is_admin)

    def check_owner(self, call: ApiCall, key: str) -> None:
        """Raises ApiError (403) unless the caller may change the resource and everything inside it."""
        if call.user.is_admin:
            return
        foreign = self.owners.first_foreign(call.user.name, key)
        if foreign:
            text = (
                f"{call.user.name} may change what is their own only; {foreign[0]} belongs to {foreign[1]}."
            )
            raise ApiError(403, "AuthorizationFailed", text)


Handler = Callable[[HandlerContext, ApiCall], ApiResponse]
T = TypeVar("T")


def show_or_none(show: Callable[..., T], *names: Any) -> T | None:
    """What `show` returns for these names; None if it does not exist."""
    try:
        return show(*names)
    except NotFoundError:
        return None
