"""Resources as the service showed them: what it filled in, and the headers beside them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from batchai_magics.models.cluster import ClusterSpec
from batchai_magics.models.provisioning import ProvisioningState
from batchai_magics.models.resources import NOTES, Cluster, Resource
from batchai_magics.server.call import Answer
from batchai_magics.server.service import Service

_CHANGING = (  # what is no part of a resource's description
    "allocationState",
    "allocationStateTransitionTime",
    "currentNodeCount",
    "errors",
    "executionInfo",
    "executionState",
    "executionStateTransitionTime",
    "nodeStateCounts",
    "provisioningState",
    "provisioningStateTransitionTime",
    "batchaiRanks",
)


def shown(service: Service, resource: Resource) -> dict[str, Any]:
    """The JSON of a resource, with the defaults that the service filled in."""
    data = resource.to_wire()
    properties = data["properties"]
    if isinstance(getattr(resource, "spec", None), ClusterSpec):
        _fill_modes((properties.get("nodeSetup") or {}).get("mountVolumes") or {})
    _fill_modes(properties.get("mountVolumes") or {})
    if service.operations.is_deleting(resource.id):
        properties["provisioningState"] = ProvisioningState.DELETING.value
    return data


def one(service: Service, resource: Resource, status: int = 200) -> Answer:
    """The answer that shows one resource, with its ETag and when it was made."""
    data = shown(service, resource)
    made = resource.provisioning.created.strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = {"ETag": etag(data), "Last-Modified": made}
    notes = resource.notes if isinstance(resource, Cluster) else ()
    return Answer(status, {**data, NOTES: list(notes)} if notes else data, headers)


def etag(data: Mapping[str, Any]) -> str:
    """A tag of what was asked for: it changes with the description, not with the state."""
    properties = {key: value for key, value in data["properties"].items() if key not in _CHANGING}
    text = json.dumps({**data, "properties": properties}, sort_keys=True)
    return f'"0x{hashlib.sha256(text.encode()).hexdigest()[:15].upper()}"'


def _fill_modes(volumes: Mapping[str, Any]) -> None:
    for share in volumes.get("azureFileShares") or ():
        share.setdefault("fileMode", "0777")
        share.setdefault("directoryMode", "0777")
