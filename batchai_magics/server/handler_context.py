"""What handlers work with: the `HandlerContext`, and the types of handlers, watchers and routes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from batchai_magics.backends.base import Backend
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
        wanted = call.parts.get("subscription", self.subscription)
        if wanted.lower() != self.subscription.lower():
            message = f"The subscription '{wanted}' could not be found."
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


class Watcher(Protocol):
    """Waits for changes. One poll serves all watchers of a path; each checks the result for its own news."""

    def poll(self, context: HandlerContext, last: ApiResponse | None) -> ApiResponse:
        """The observed state as the data of a response; `last` is the previous poll's result, if known."""

    def state(self, polled: Any) -> str:
        """The state to respond with."""

    def first_state(self, polled: Any) -> str:
        """The state assumed for a client that sends none."""

    def is_other_state(self, polled: Any, known: str) -> bool:
        """Whether the state differs from the one the client knows."""

    def has_bytes(self, polled: Any) -> bool:
        """Whether there are bytes for it to read."""


@dataclass(frozen=True)
class Route:
    """A method, a path and its handler; `{name}` in the path becomes an entry of `ApiCall.parts`."""

    method: str
    path: str
    handler: Handler
    takes_files: bool = False  # allows bodies as large as a range of a file
    is_read: bool = False  # changes nothing although it is a POST
    watch: Callable[[ApiCall], Watcher] | None = None  # constructed from a long-polling request
