"""Bodies of requests for AmlCompute, and its responses as clusters and nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from batchai_magics.models.cluster_spec import (
    AutoScale,
    ClusterSpec,
    ManualScale,
    NodeStateCounts,
    ScaleSettings,
    UserAccountSettings,
    VmPriority,
)
from batchai_magics.models.error_details import ErrorDetail
from batchai_magics.models.mount_volumes import ResourceRef
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import Cluster, Node
from batchai_magics.models.response_object import Provisioning, ProvisioningState, ResponseObject
from batchai_magics.models.states import AllocationState, NodeState

KIND = "AmlCompute"
ADMIN = "azureuser"  # of a cluster on which nobody can log in
_IDLE_BEFORE_SCALE_DOWN = "PT2M"
_PRIORITIES = {VmPriority.DEDICATED: "Dedicated", VmPriority.LOW_PRIORITY: "LowPriority"}
_PROVISIONING = {state.value: state for state in ProvisioningState}


def cluster_body(spec: ClusterSpec, location: str) -> dict[str, Any]:
    """The body that creates a cluster, with the credentials of its administrator."""
    own: dict[str, Any] = {
        "osType": "Linux",
        "vmSize": spec.vm_size,
        "vmPriority": _PRIORITIES[spec.vm_priority],
        "scaleSettings": scale_body(spec.scale_settings),
        "remoteLoginPortPublicAccess": "NotSpecified",
    }
    account = _account_body(spec.user_account_settings)
    if account:
        own["userAccountCredentials"] = account
    if spec.subnet:
        own["subnet"] = {"id": spec.subnet.id}
    properties = {"computeType": KIND, "disableLocalAuth": not account, "properties": own}
    return {"location": location, "properties": properties}


def scale_body(scale: ScaleSettings | None) -> dict[str, Any]:
    """The service's settings: a fixed number of nodes is a range of one number."""
    if scale and scale.auto_scale:
        fewest, most = scale.auto_scale.minimum_node_count, scale.auto_scale.maximum_node_count
    else:
        fewest = most = scale.manual.target_node_count if scale and scale.manual else 0
    return {
        "minNodeCount": fewest,
        "maxNodeCount": most,
        "nodeIdleTimeBeforeScaleDown": _IDLE_BEFORE_SCALE_DOWN,
    }


def _account_body(account: UserAccountSettings) -> dict[str, str]:
    """The administrator; empty without a password or key, which the service requires."""
    password, key = account.admin_user_password, account.admin_user_ssh_public_key
    given = {
        "adminUserPassword": password.get_secret_value() if password else None,
        "adminUserSshPublicKey": key,
    }
    secrets = {name: text for name, text in given.items() if text}
    return {"adminUserName": account.admin_user_name, **secrets} if secrets else {}


def is_cluster(data: Mapping[str, Any]) -> bool:
    """Whether a compute is a cluster, and no compute instance or attached machine."""
    return (data.get("properties") or {}).get("computeType") == KIND


def parse_cluster(data: Mapping[str, Any], id: ResourceId) -> Cluster:
    """The cluster of a response.

    Raises:
        ServiceError: A field is missing or invalid.
    """
    compute = ResponseObject.of(data, "the compute").object("properties")
    own = compute.object("properties")
    provisioning = _provisioning(ResponseObject.of(data, "the compute"), compute)
    return Cluster(
        id=id,
        spec=_parse_spec(own),
        provisioning=provisioning,
        allocation_state=own.choice("allocationState", AllocationState, AllocationState.STEADY),
        allocation_changed=own.time("allocationStateTransitionTime", provisioning.changed),
        node_states=own.object("nodeStateCounts").model(NodeStateCounts),
        errors=tuple(_errors(compute, own)),
    )


def _parse_spec(own: ResponseObject) -> ClusterSpec:
    priority = own.text("vmPriority", "Dedicated").lower()
    account = own.object("userAccountCredentials")
    subnet = own.object("subnet")
    return ClusterSpec(
        vm_size=own.text("vmSize"),
        vm_priority=VmPriority(priority),
        scale_settings=_parse_scale(own.object("scaleSettings")),
        user_account_settings=UserAccountSettings(admin_user_name=account.text("adminUserName", ADMIN)),
        subnet=ResourceRef(id=subnet.text("id")) if subnet.has("id") else None,
    )


def _parse_scale(scale: ResponseObject) -> ScaleSettings:
    fewest, most = scale.number("minNodeCount", 0), scale.number("maxNodeCount", 0)
    if fewest == most:
        return ScaleSettings(manual=ManualScale(target_node_count=most))
    return ScaleSettings(auto_scale=AutoScale(minimum_node_count=fewest, maximum_node_count=most))


def _provisioning(data: ResponseObject, compute: ResponseObject) -> Provisioning:
    created_at = data.object("systemData").time("createdAt", datetime.fromtimestamp(0, timezone.utc))
    created = compute.time("createdOn", created_at)
    word = compute.text("provisioningState", "Succeeded").lower()
    state = _PROVISIONING.get(word, ProvisioningState.FAILED)
    return Provisioning(created, compute.time("modifiedOn", created), state)


def _errors(compute: ResponseObject, own: ResponseObject) -> Iterator[ErrorDetail]:
    """Why nodes are missing or unusable, each said once."""
    seen = set()
    for part in (*own.items("errors"), *compute.items("provisioningErrors")):
        error = ResponseObject.of(part, "the error").object("error")
        message = error.text("message", "")
        if message and message not in seen:
            seen.add(message)
            yield ErrorDetail(code=error.text("code", "ComputeError"), message=message)


def parse_node(data: Mapping[str, Any], job: ResourceId | None) -> Node:
    """A node of a response, and the job that it runs.

    Raises:
        ServiceError: A field is missing or invalid.
    """
    node = ResponseObject.of(data, "the node")
    return Node(
        id=node.text("nodeId"),
        state=node.choice("nodeState", NodeState, NodeState.PREPARING),
        job=job,
        ip_address=node.text("publicIpAddress", node.text("privateIpAddress", "")),
        port=node.number("port", 22),
    )


def differences(wanted: ClusterSpec, found: ClusterSpec) -> list[str]:
    """What distinguishes a cluster from a wanted one, as `vmSize: Standard_D2, not Standard_NC6`."""
    pairs = {
        "vmSize": (found.vm_size.lower(), wanted.vm_size.lower()),
        "vmPriority": (found.vm_priority.value, wanted.vm_priority.value),
        "scaleSettings": (_range_words(found.scale_settings), _range_words(wanted.scale_settings)),
        "subnet": (
            found.subnet.id.lower() if found.subnet else "none",
            wanted.subnet.id.lower() if wanted.subnet else "none",
        ),
    }
    return [f"{name}: {here}, not {asked}" for name, (here, asked) in pairs.items() if here != asked]


def _range_words(scale: ScaleSettings | None) -> str:
    body = scale_body(scale)
    fewest, most = body["minNodeCount"], body["maxNodeCount"]
    return f"{most} nodes" if fewest == most else f"{fewest} to {most} nodes"
