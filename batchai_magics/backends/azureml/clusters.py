"""Clusters: AmlCompute, the serverless compute of jobs without one, and sizes and quotas of a location."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from math import inf
from typing import Any, cast

from batchai_magics.backends.azureml.connection import Connection
from batchai_magics.backends.azureml.job_names import job_id
from batchai_magics.backends.azureml.settings import NAME
from batchai_magics.backends.azureml.ttl_cache import TtlCache
from batchai_magics.backends.base import api_errors
from batchai_magics.backends.base.capabilities import Listing, Patch, Spec, unsupported
from batchai_magics.errors import (
    CapabilityError,
    ConflictError,
    NotFoundError,
    Problem,
    ServiceError,
    SpecError,
    UnreachableError,
    did_you_mean,
)
from batchai_magics.models import vm_sizes
from batchai_magics.models.cluster_spec import (
    AutoScale,
    ClusterPatch,
    ClusterSpec,
    ManualScale,
    NodeStateCounts,
    ScaleSettings,
    UserAccountSettings,
    VmPriority,
)
from batchai_magics.models.error_details import ErrorDetail
from batchai_magics.models.mount_volumes import ResourceRef
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import Cluster, Node
from batchai_magics.models.response_object import Provisioning, ProvisioningState, ResponseObject
from batchai_magics.models.states import AllocationState, DeallocationOption, NodeState

SERVERLESS = ("serverless", "default")  # clusters of these names are no AmlCompute
_MOST_SERVERLESS_NODES = 100
_UNSUPPORTED = {
    "virtual_machine_configuration": "The nodes have the service's image, and jobs run in their own.",
    "node_setup": "There is no preparation of nodes: put mounts and preparation into the job.",
}
_SIZES_S, _USAGES_S = 3600.0, 60.0  # cache TTLs
KIND = "AmlCompute"
_CLUSTER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{2,31}")
ADMIN = "azureuser"  # of a cluster on which nobody can log in
_IDLE_BEFORE_SCALE_DOWN = "PT2M"
_PRIORITIES = {VmPriority.DEDICATED: "Dedicated", VmPriority.LOW_PRIORITY: "LowPriority"}


class Clusters:
    """The clusters of a workspace."""

    def __init__(self, connection: Connection, location: LocationFacts | None = None) -> None:
        self._connection = connection
        self.location = location or LocationFacts(connection)
        self._jobs = TtlCache[ResourceId | None](lambda _: inf)

    def create(self, id: ResourceId, spec: Spec) -> Cluster:
        """Creates an AmlCompute, or returns an identical one."""
        cluster_spec = cast("ClusterSpec", spec)
        if is_serverless(id):
            return self._serverless(id)
        for attribute, why in _UNSUPPORTED.items():
            if getattr(cluster_spec, attribute) is not None:
                name = type(cluster_spec).model_fields[attribute].alias
                raise unsupported(f"properties.{name}", NAME, f"{why} Nothing was sent.")
        _check_scale(cluster_spec.scale_settings)
        try:
            existing = self.show(id)
        except NotFoundError:
            if not _CLUSTER_NAME.fullmatch(id.name):
                text = f"{id.name!r} is no name of a cluster on Azure Machine Learning"
                fix = "3 to 32 letters, digits and hyphens, beginning with a letter"
                raise SpecError([Problem("name", text, fix)], what=ClusterSpec.what) from None
            self.location.known_size(cluster_spec.vm_size)
            body = cluster_body(cluster_spec, self._connection.workspace.location)
            data = self._connection.create(self._connection.request("PUT", _path(id), body))
            return parse_cluster(data, id)
        different = differences(cluster_spec, existing.spec)
        if different:
            error = api_errors.already_exists(id)
            text = f"{error.message} It has {'; '.join(different)}."
            raise ConflictError(text, code=error.code, hint=error.hint)
        return existing

    def show(self, id: ResourceId) -> Cluster:
        """The current cluster."""
        if is_serverless(id):
            return self._serverless(id)
        try:
            data = self._connection.request_json(self._connection.request("GET", _path(id)))
        except NotFoundError as error:
            raise api_errors.not_found(id) from error
        if not is_cluster(data):
            raise api_errors.not_found(id)
        return parse_cluster(data, id)

    def list(self, workspace: ResourceId) -> Listing:
        """The clusters of a workspace, oldest first."""
        clusters = []
        for data in self._connection.items(self._connection.request("GET", "computes")):
            if is_cluster(data):
                id = workspace.child(Kind.CLUSTER, str(data.get("name")))
                clusters.append(parse_cluster(data, id))
        return Listing(sorted(clusters, key=lambda cluster: cluster.provisioning.created))

    def update(self, id: ResourceId, patch: Patch) -> Cluster:
        """Changes the scale of a cluster."""
        if is_serverless(id):
            raise _no_serverless("the nodes of serverless jobs come and go with them")
        new_scale = cast("ClusterPatch", patch).scale_settings
        _check_scale(new_scale)
        self.show(id)  # raises NotFoundError with our message
        scale = scale_body(new_scale)
        body = {"properties": {"properties": {"scaleSettings": scale}}}
        self._connection.send(self._connection.request("PATCH", _path(id), body))
        return self.show(id)

    def delete(self, id: ResourceId) -> None:
        """Deletes a cluster, and waits until it is gone."""
        if is_serverless(id):
            raise _no_serverless("serverless compute is no cluster that could be deleted")
        self.show(id)
        query = {"underlyingResourceAction": "Delete"}
        request = self._connection.request("DELETE", _path(id), query=query)
        self._connection.delete(request)

    def nodes(self, id: ResourceId) -> Sequence[Node]:
        """The nodes of a cluster, with the jobs that they run."""
        if is_serverless(id):
            return ()
        try:
            return [
                parse_node(item, self._job(str(item.get("runId") or ""), id.workspace_id))
                for item in self._node_items(id)
            ]
        except NotFoundError as error:
            raise api_errors.not_found(id) from error

    def nodes_of_run(self, cluster: ResourceId, run: str, job: ResourceId, count: int) -> Sequence[Node]:
        """The nodes that the run of a job has; of a serverless one only their number is known."""
        if is_serverless(cluster):
            return [Node(f"node-{index}", NodeState.RUNNING, job) for index in range(count)]
        try:
            items = self._node_items(cluster)
        except NotFoundError:  # the cluster was deleted
            return ()
        items_of_run = (item for item in items if str(item.get("runId") or "") == run)
        return [parse_node(item, job) for item in items_of_run]

    def _node_items(self, id: ResourceId) -> Sequence[Mapping[str, Any]]:
        items: list[Mapping[str, Any]] = []
        request = self._connection.request("POST", f"{_path(id)}/listNodes")
        for page in self._connection.pages(request):
            items += [item for item in page.get("nodes") or () if isinstance(item, dict)]
        return items

    def _job(self, run: str, workspace: ResourceId) -> ResourceId | None:
        """The job of a run, asked once; None for a run that is gone."""

        def read() -> ResourceId | None:
            try:
                data = self._connection.request_json(self._connection.request("GET", f"jobs/{run}"))
            except NotFoundError:
                return None
            return job_id(workspace, data)

        return self._jobs.get(run, read) if run else None

    def _serverless(self, id: ResourceId) -> Cluster:
        """The stand-in cluster of jobs on serverless compute, which has as many nodes as they need."""
        scale = AutoScale(minimum_node_count=0, maximum_node_count=_MOST_SERVERLESS_NODES)
        spec = ClusterSpec(
            vm_size=self._connection.settings.size,
            scale_settings=ScaleSettings(auto_scale=scale),
            user_account_settings=UserAccountSettings(admin_user_name=ADMIN),
        )
        always = datetime.fromtimestamp(0, timezone.utc)
        provisioning = Provisioning(always, always)
        return Cluster(id, spec, provisioning, AllocationState.STEADY, always, NodeStateCounts())


def is_serverless(cluster: ResourceId) -> bool:
    """Whether a cluster's name stands for compute that the service creates for each job."""
    return cluster.name.lower() in SERVERLESS


def _path(id: ResourceId) -> str:
    return f"computes/{id.name}"


def _check_scale(scale: ScaleSettings | None) -> None:
    """Checks how many nodes a cluster may have.

    Raises:
        CapabilityError: Running jobs are to be ended; the service only removes idle nodes.
        SpecError: The cluster could never have a node.
    """
    if scale is None:
        return
    manual, automatic = scale.manual, scale.auto_scale
    most = manual.target_node_count if manual else automatic.maximum_node_count if automatic else 1
    if most < 1:
        field = "manual.targetNodeCount" if manual else "autoScale.maximumNodeCount"
        fix = "for nodes that come with jobs and leave after them, scale automatically: --min 0 --max 4"
        text = "a cluster must be able to have at least one node"
        raise SpecError([Problem(f"properties.scaleSettings.{field}", text, fix)], what=ClusterSpec.what)
    if manual and manual.node_deallocation_option is DeallocationOption.TERMINATE:
        hint = "Leave it out: nodes leave when their jobs have ended. Nothing was sent."
        raise unsupported("properties.scaleSettings.manual.nodeDeallocationOption", NAME, hint)


def _no_serverless(text: str) -> CapabilityError:
    return CapabilityError(text, code="NotSupported", hint="Make a cluster with `%batchai cluster create`.")


class LocationFacts:
    """The sizes and quotas of the workspace's location, read again once they are old."""

    def __init__(self, connection: Connection, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._connection = connection
        self._sizes_read = TtlCache[Sequence[SizeFacts]](lambda _: _SIZES_S, clock=clock)
        self._usages_read = TtlCache[Sequence[Mapping[str, Any]]](lambda _: _USAGES_S, clock=clock)

    def size(self, name: str) -> SizeFacts | None:
        """A VM size; None if the location does not have it."""
        return next((size for size in self._sizes() if size.name.lower() == name.lower()), None)

    def known_size(self, name: str) -> SizeFacts:
        """A VM size; one of Batch AI's if the user may not read the service's list.

        Raises:
            NotFoundError: The location does not have it.
        """
        try:
            size_facts = self.size(name)
        except UnreachableError:
            raise
        except ServiceError as error:
            try:
                size = vm_sizes.lookup(name)
            except ServiceError:
                raise error from None
            return SizeFacts(size.name, "", size.vcpus, size.gpus)
        if size_facts is None:
            text = f"there is no VM size {name} in {self._connection.workspace.location}"
            guess = did_you_mean(name, [size.name for size in self._sizes()])
            hint = guess or "Choose one of `az vm list-sizes`, with --size or -s."
            raise NotFoundError(text, code="SizeNotFound", hint=f"{hint} Nothing was sent.")
        return size_facts

    def usages(self, location: str = "") -> Sequence[Mapping[str, Any]]:
        """The current usage of each quota; by default of the workspace's location."""
        return [*self._connection.items(self._connection.location_request("usages", location))]

    def recent_usages(self) -> Sequence[Mapping[str, Any]]:
        """The usage of each quota in the workspace's location within the last minute."""
        return self._usages_read.get("", self.usages)

    def _sizes(self) -> Sequence[SizeFacts]:
        def read() -> Sequence[SizeFacts]:
            items = self._connection.items(self._connection.location_request("vmSizes"))
            return [SizeFacts.from_wire(item) for item in items]

        return self._sizes_read.get("", read)


_HOUR = "onehour"
_DEDICATED_TIERS, _SPOT_TIERS = ("standard",), ("lowpriority", "spot")


@dataclass(frozen=True)
class SizeFacts:
    """A VM size in a location."""

    name: str
    family: str  # which has a quota
    cores: int  # the cores of one node
    gpus: int  # the GPUs of one node
    # dollars, or whatever `currency` is, for one hour by tier in lower case; empty if unknown
    prices: Mapping[str, float] = field(default_factory=dict)
    currency: str = "USD"  # the currency of the prices

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> SizeFacts:
        """Reads an item of `vmSizes`; raises ServiceError if a field is missing or invalid."""
        size = ResponseObject.of(data, "the VM size")
        price_list = size.object("estimatedVMPrices")
        is_hourly = price_list.text("unitOfMeasure", "OneHour").lower() == _HOUR
        values = [ResponseObject.of(item, "the price") for item in price_list.items("values") if is_hourly]
        return cls(
            name=size.text("name"),
            family=size.text("family", ""),
            cores=size.number("vCPUs", 0),
            gpus=size.number("gpus", 0),
            prices={
                value.text("vmTier", "").lower(): float(value.fields.get("retailPrice") or 0.0)
                for value in values
                if value.text("osType", "Linux").lower() == "linux"
            },
            currency=price_list.text("billingCurrency", "USD"),
        )

    def price(self, *, is_spot: bool) -> float | None:
        """The price of one node for an hour; None if the service does not report it."""
        tiers = _SPOT_TIERS if is_spot else _DEDICATED_TIERS
        return next((self.prices[tier] for tier in tiers if self.prices.get(tier)), None)

    @property
    def short_name(self) -> str:
        """The name without its first word."""
        return self.name.removeprefix("Standard_")


_PROVISIONING = {state.value: state for state in ProvisioningState}


def cluster_body(spec: ClusterSpec, location: str) -> dict[str, Any]:
    """The body that creates a cluster, with the credentials of its administrator."""
    compute: dict[str, Any] = {
        "osType": "Linux",
        "vmSize": spec.vm_size,
        "vmPriority": _PRIORITIES[spec.vm_priority],
        "scaleSettings": scale_body(spec.scale_settings),
        "remoteLoginPortPublicAccess": "NotSpecified",
    }
    user = spec.user_account_settings
    password = user.admin_user_password.get_secret_value() if user.admin_user_password else None
    optional = {"adminUserPassword": password, "adminUserSshPublicKey": user.admin_user_ssh_public_key}
    secrets = {name: text for name, text in optional.items() if text}
    if secrets:
        compute["userAccountCredentials"] = {"adminUserName": user.admin_user_name, **secrets}
    if spec.subnet:
        compute["subnet"] = {"id": spec.subnet.id}
    properties = {"computeType": KIND, "disableLocalAuth": not secrets, "properties": compute}
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


def is_cluster(data: Mapping[str, Any]) -> bool:
    """Whether a compute is a cluster, not a compute instance or attached machine."""
    return (data.get("properties") or {}).get("computeType") == KIND


def parse_cluster(data: Mapping[str, Any], id: ResourceId) -> Cluster:
    """The cluster of a response; raises ServiceError if a field is missing or invalid."""
    response = ResponseObject.of(data, "the compute")
    compute = response.object("properties")
    inner = compute.object("properties")
    unknown = datetime.fromtimestamp(0, timezone.utc)
    created = compute.time("createdOn", response.object("systemData").time("createdAt", unknown))
    word = compute.text("provisioningState", "Succeeded").lower()
    state = _PROVISIONING.get(word, ProvisioningState.FAILED)
    provisioning = Provisioning(created, compute.time("modifiedOn", created), state)
    priority = inner.text("vmPriority", "Dedicated").lower()
    account = inner.object("userAccountCredentials")
    subnet, scale = inner.object("subnet"), inner.object("scaleSettings")
    fewest, most = scale.number("minNodeCount", 0), scale.number("maxNodeCount", 0)
    settings = ScaleSettings(auto_scale=AutoScale(minimum_node_count=fewest, maximum_node_count=most))
    if fewest == most:
        settings = ScaleSettings(manual=ManualScale(target_node_count=most))
    return Cluster(
        id=id,
        spec=ClusterSpec(
            vm_size=inner.text("vmSize"),
            vm_priority=VmPriority(priority),
            scale_settings=settings,
            user_account_settings=UserAccountSettings(admin_user_name=account.text("adminUserName", ADMIN)),
            subnet=ResourceRef(id=subnet.text("id")) if subnet.has("id") else None,
        ),
        provisioning=provisioning,
        allocation_state=inner.choice("allocationState", AllocationState, AllocationState.STEADY),
        allocation_changed=inner.time("allocationStateTransitionTime", provisioning.changed),
        node_states=inner.object("nodeStateCounts").model(NodeStateCounts),
        errors=tuple(_errors(compute, inner)),
    )


def _errors(compute: ResponseObject, inner: ResponseObject) -> Iterator[ErrorDetail]:
    """Why nodes are missing or unusable, without duplicates."""
    messages = set()
    for part in (*inner.items("errors"), *compute.items("provisioningErrors")):
        error = ResponseObject.of(part, "the error").object("error")
        message = error.text("message", "")
        if message and message not in messages:
            messages.add(message)
            yield ErrorDetail(code=error.text("code", "ComputeError"), message=message)


def parse_node(data: Mapping[str, Any], job: ResourceId | None) -> Node:
    """A node of a response, with the job that it runs; raises ServiceError if a field is invalid."""
    node = ResponseObject.of(data, "the node")
    return Node(
        id=node.text("nodeId"),
        state=node.choice("nodeState", NodeState, NodeState.PREPARING),
        job=job,
        ip_address=node.text("publicIpAddress", node.text("privateIpAddress", "")),
        port=node.number("port", 22),
    )


def differences(requested: ClusterSpec, existing: ClusterSpec) -> list[str]:
    """The differences of a cluster from the requested one, as `vmSize: Standard_D2, not Standard_NC6`."""
    pairs = {
        "vmSize": (existing.vm_size.lower(), requested.vm_size.lower()),
        "vmPriority": (existing.vm_priority.value, requested.vm_priority.value),
        "scaleSettings": (_range_words(existing.scale_settings), _range_words(requested.scale_settings)),
        "subnet": (
            existing.subnet.id.lower() if existing.subnet else "none",
            requested.subnet.id.lower() if requested.subnet else "none",
        ),
    }
    return [f"{name}: {current}, not {new}" for name, (current, new) in pairs.items() if current != new]


def _range_words(scale: ScaleSettings | None) -> str:
    body = scale_body(scale)
    fewest, most = body["minNodeCount"], body["maxNodeCount"]
    return f"{most} nodes" if fewest == most else f"{fewest} to {most} nodes"
