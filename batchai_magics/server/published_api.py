"""The published API: its OpenAPI document, and responses reduced to what it defines."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.server.api_call import ApiResponse

OPENAPI_PATH = "openapi.json"  # its path


@cache
def openapi_document() -> Mapping[str, Any]:
    """The OpenAPI 3.1 document of the 29 published operations, without our extensions."""
    import yaml

    text = (files(__package__) / "openapi.yaml").read_text(encoding="utf-8")
    document: Mapping[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return document


_EXTENSION_PREFIX = "batchai"  # prefix of our own keys and operations
_USER_DEFINED = ("tags",)  # keys chosen by users
_EXTENSION_DETAILS = frozenset({"failedRank", "failedNode", "exitCode"})  # of an error
_FILE_SERVER, _CLUSTER = "/fileservers", "/clusters"  # suffixes of types


def is_extension(path: str) -> bool:
    """Whether a route is one of our own operations, which only our own client uses."""
    return path.rpartition("/")[2].startswith(_EXTENSION_PREFIX)


def published_response(response: ApiResponse) -> ApiResponse:
    """The response without our extension fields."""
    return response if response.data is None else replace(response, data=_published(response.data))


def _published(data: Any) -> Any:
    if isinstance(data, list):
        return [_published(item) for item in data]
    if not isinstance(data, dict):
        return data
    kept = {
        key: value if key in _USER_DEFINED else _published(value)
        for key, value in data.items()
        if not key.startswith(_EXTENSION_PREFIX)
    }
    if "code" in kept and "details" in kept:
        kept = _with_published_details(kept)
    kind = str(kept.get("type", ""))
    return _with_subnet(kept) if kind.endswith((_FILE_SERVER, _CLUSTER)) else kept


def _with_published_details(error: dict[str, Any]) -> dict[str, Any]:
    """An error without details that the service did not report."""
    details = [each for each in error.pop("details") if each.get("name") not in _EXTENSION_DETAILS]
    return {**error, "details": details} if details else error


def _with_subnet(resource: dict[str, Any]) -> dict[str, Any]:
    """A file server, or a cluster that mounts one, with the subnet that the service reported."""
    properties = resource.get("properties") or {}
    if properties.get("subnet"):
        return resource
    mounts = ((properties.get("nodeSetup") or {}).get("mountVolumes") or {}).get("fileServers") or ()
    ids = [mount["fileServer"]["id"] for mount in mounts]
    server = resource["id"] if resource["type"].endswith(_FILE_SERVER) else next(iter(ids), "")
    subnet = {"subnet": {"id": _subnet(server)}} if server else {}
    return {**resource, "properties": {**properties, **subnet}}


def _subnet(server: str) -> str:
    """A stable made-up subnet id for a file server."""
    id = ResourceId.parse(server)
    name = uuid.uuid5(uuid.NAMESPACE_URL, id.key)
    network = f"Microsoft.Network/virtualNetworks/{name}vnet"
    group = f"/subscriptions/{id.subscription}/resourceGroups/fileserverrg-{name}"
    return f"{group}/providers/{network}/subnets/Subnet-1"
