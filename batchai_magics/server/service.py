"""What the handlers work with: the backend, and what the server itself keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from batchai_magics.backends.base import Backend
from batchai_magics.server.access.owners import UNKNOWN_OWNER, Owners
from batchai_magics.server.api_call import ApiCall, ApiResponse
from batchai_magics.server.api_errors import ApiError
from batchai_magics.server.operations import Operations
from batchai_magics.server.storage.account_keys import AccountKeys
from batchai_magics.server.storage.storage_metadata import MetadataStore


@dataclass(frozen=True)
class Service:
    """A backend with what stands around it. `group` is what there is where a backend has no groups."""

    backend: Backend
    subscription: str
    location: str
    group: str
    operations: Operations
    owners: Owners
    keys: AccountKeys
    metadata: MetadataStore

    def check_subscription(self, call: ApiCall) -> None:
        """Raises the gateway's words for a subscription that is not this one."""
        wanted = call.parts.get("subscription", self.subscription)
        if wanted.lower() != self.subscription.lower():
            message = f"The subscription '{wanted}' could not be found."
            raise ApiError(404, "SubscriptionNotFound", message)

    def is_owner(self, call: ApiCall, key: str) -> bool:
        """Whether the resource of that key is the caller's; what is nobody's is the administrator's."""
        owner = self.owners.of(key)
        return owner == call.user.name or (owner == UNKNOWN_OWNER and call.user.is_admin)

    def check_owner(self, call: ApiCall, key: str) -> None:
        """Raises unless the caller may change or delete the resource of that key and all inside it."""
        if call.user.is_admin:
            return
        foreign = self.owners.first_foreign(call.user.name, key)
        if foreign:
            text = (
                f"{call.user.name} may change what is their own only; {foreign[0]} belongs to {foreign[1]}."
            )
            raise ApiError(403, "AuthorizationFailed", text)


Handler = Callable[[Service, ApiCall], ApiResponse]


class Watcher(Protocol):
    """Who waits for news. One poll serves all who wait at a path; each finds its own news in the result."""

    def poll(self, service: Service, last: ApiResponse | None) -> ApiResponse:
        """How things stand, as the data of an answer; `last` is the result of the previous poll, if known."""

    def state(self, polled: Any) -> str:
        """The state to answer with."""

    def first_state(self, polled: Any) -> str:
        """The state that it is taken to know when it names none."""

    def is_other_state(self, polled: Any, known: str) -> bool:
        """Whether the state is not the one that it knows."""

    def has_bytes(self, polled: Any) -> bool:
        """Whether there is something for it to read."""


@dataclass(frozen=True)
class Route:
    """A method and a path, and what answers; `{name}` in the path is one of `Call.parts`."""

    method: str
    path: str
    handler: Handler
    takes_files: bool = False  # its body may be as large as a range of a file
    watch: Callable[[ApiCall], Watcher] | None = None  # made of a request that waits
