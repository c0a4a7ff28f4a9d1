"""Requests to Azure Resource Manager: paths, queries and bodies. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from batchai_magics.backends.base import Spec
from batchai_magics.errors import StorageError
from batchai_magics.models.resource_ids import PROVIDER, Kind, ResourceId

API_VERSION = "2018-05-01"
STORAGE_VERSION = "2023-05-01"


@dataclass(frozen=True)
class ArmRequest:
    """One request, without host and token."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = field(default=None, repr=False)  # may hold secrets
    headers: Mapping[str, str] = field(default_factory=dict)
    version: str = API_VERSION
    content: bytes | None = field(default=None, repr=False)  # in place of `body`
    is_polled: bool = False  # the caller polls and repeats it anyway: no retries

    @property
    def params(self) -> dict[str, str]:
        """The query parameters, with the API version."""
        return {"api-version": self.version, **self.query}


def resource_path(id: ResourceId, action: str = "") -> str:
    """The path of a resource, or of an action on it."""
    path = quote(str(id), safe="/()")
    return f"{path}/{action}" if action else path


def provider_path(subscription: str, rest: str) -> str:
    """A path below the provider in a subscription."""
    return f"/subscriptions/{quote(subscription)}/providers/{PROVIDER}/{rest}"


def collection_path(parent: ResourceId, kind: Kind) -> str:
    """The path of the resources of a kind inside `parent`; for workspaces, those of its resource group."""
    if kind is Kind.WORKSPACE:
        group = f"/subscriptions/{quote(parent.subscription)}/resourceGroups/{quote(parent.group)}"
        return f"{group}/providers/{PROVIDER}/workspaces"
    return resource_path(parent, kind.value)


def request_body(spec: Spec) -> dict[str, Any]:
    """The JSON that creates a resource, secrets included."""
    return spec.to_wire(secrets=True)


def check_inside(path: str) -> None:
    """Raises StorageError for a path that leaves its folder."""
    if ".." in path.split("/"):
        raise StorageError(f"{path!r} is outside its folder", hint="Paths are relative and stay inside.")
