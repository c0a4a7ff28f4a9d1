"""What is asked of the far side: paths, queries and bodies. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from batchai_magics.backends.base import Spec
from batchai_magics.errors import StorageError
from batchai_magics.models.ids import PROVIDER, Kind, ResourceId

API_VERSION = "2018-05-01"
STORAGE_VERSION = "2023-05-01"


@dataclass(frozen=True)
class Question:
    """One request: what is asked where. It has no host and no token."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = field(default=None, repr=False)  # it may hold secrets
    headers: Mapping[str, str] = field(default_factory=dict)
    version: str = API_VERSION
    content: bytes | None = field(default=None, repr=False)  # in place of `body`
    is_asked_again: bool = False  # by who follows something: no need to try twice at once

    @property
    def params(self) -> dict[str, str]:
        """The whole query."""
        return {"api-version": self.version, **self.query}


def of(id: ResourceId, action: str = "") -> str:
    """The path of a resource, or of an action on it."""
    path = quote(str(id), safe="/()")
    return f"{path}/{action}" if action else path


def provider(subscription: str, rest: str) -> str:
    """A path below the provider in a subscription."""
    return f"/subscriptions/{quote(subscription)}/providers/{PROVIDER}/{rest}"


def collection(parent: ResourceId, kind: Kind) -> str:
    """The path of the resources of a kind that are inside `parent`; of the workspaces of its group."""
    if kind is Kind.WORKSPACE:
        group = f"/subscriptions/{quote(parent.subscription)}/resourceGroups/{quote(parent.group)}"
        return f"{group}/providers/{PROVIDER}/workspaces"
    return of(parent, kind.value)


def body_of(spec: Spec) -> dict[str, Any]:
    """The JSON that makes a resource, with its secrets."""
    return spec.to_wire(secrets=True)


def check_inside(path: str) -> None:
    """Raises StorageError for a path that leads out of its folder; nothing of that kind is sent."""
    if ".." in path.split("/"):
        raise StorageError(f"{path!r} leads out of its folder", hint="Paths are relative and stay inside.")
