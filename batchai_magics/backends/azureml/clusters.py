"""Clusters: AmlCompute, the serverless compute of jobs without one, and sizes and quotas of a location."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, cast

from batchai_magics.backends.azureml import compute_messages, service_limits
from batchai_magics.backends.azureml.connection import Connection
from batchai_magics.backends.azureml.job_names import job_id
from batchai_magics.backends.azureml.quota_messages import SizeFacts
from batchai_magics.backends.base.resource_requests import Listing, Patch, Spec
from batchai_magics.backends.service import api_errors
from batchai_magics.errors import (
    CapabilityError,
    ConflictError,
    NotFoundError,
    ServiceError,
    UnreachableError,
    did_you_mean,
)
from batchai_magics.models import vm_sizes
from batchai_magics.models.cluster_spec import (
    AutoScale,
    ClusterPatch,
    ClusterSpec,
    NodeStateCounts,
    ScaleSettings,
    UserAccountSettings,
)
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import Cluster, Node
from batchai_magics.models.response_object import Provisioning
from batchai_magics.models.states import AllocationState, DeallocationOption, NodeState

SERVERLESS = ("serverless", "default")  # clusters of these names are no AmlCompute
_MOST_SERVERLESS_NODES = 100
_UNSUPPORTED = {
    "virtual_machine_configuration": "the nodes have the service's image, and jobs run in their own",
    "node_setup": "there is no preparation of nodes: put mounts and preparation into the job",
}
_SIZES_S, _USAGES_S = 3600.0, 60.0  # how long what was read is used


class Clusters:
    """The clusters of a workspace."""

    def __init__(self, connection: Connection, location: LocationFacts | None = None) -> None:
        self._connection = connection
        self.location = location or LocationFacts(connection)
        self._jobs: dict[str, ResourceId | None] = {}

    def create(self, id: ResourceId, spec: Spec) -> Cluster:
        """Creates an AmlCompute, or returns an identical one."""
        wanted = cast("ClusterSpec", spec)
        if is_serverless(id):
            return self._serverless(id)
        _check_supported(wanted)
        _check_scale(wanted.scale_settings)
        try:
            found = self.show(id)
        except NotFoundError:
            service_limits.check_cluster_name(id.name)
            self.location.known_size(wanted.vm_size)
            body = compute_messages.cluster_body(wanted, self._connection.workspace.location)
            data = self._connection.create(self._connection.request("PUT", _path(id), body))
            return compute_messages.parse_cluster(data, id)
        different = compute_messages.differences(wanted, found.spec)
        if different:
            raise _different(id, different)
        return found

    def show(self, id: ResourceId) -> Cluster:
        """The current cluster."""
        if is_serverless(id):
            return self._serverless(id)
        try:
            data = self._connection.request_json(self._connection.request("GET", _path(id)))
        except NotFoundError as error:
            raise api_errors.not_found(id) from error
        if not compute_messages.is_cluster(data):
            raise api_errors.not_found(id)
        return compute_messages.parse_cluster(data, id)

    def list(self, workspace: ResourceId) -> Listing:
        """The clusters of a workspace, oldest first."""
        found = []
        for data in self._connection.items(self._connection.request("GET", "computes")):
            if compute_messages.is_cluster(data):
                id = workspace.child(Kind.CLUSTER, str(data.get("name")))
                found.append(compute_messages.parse_cluster(data, id))
        return Listing(sorted(found, key=lambda cluster: cluster.provisioning.created))

    def update(self, id: ResourceId, patch: Patch) -> Cluster:
        """Changes the scale of a cluster."""
        if is_serverless(id):
            raise _no_serverless("the nodes of serverless jobs come and go with them")
        wanted = cast("ClusterPatch", patch).scale_settings
        _check_scale(wanted)
        self.show(id)  # raises NotFoundError with our message
        scale = compute_messages.scale_body(wanted)
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
                compute_messages.parse_node(item, self._job(str(item.get("runId") or ""), id.workspace_id))
                for item in self._node_items(id)
            ]
        except NotFoundError as error:
            raise api_errors.not_found(id) from error

    def nodes_of_run(self, cluster: ResourceId, run: str, job: ResourceId, count: int) -> Sequence[Node]:
        """The nodes that a run has; of a serverless one only their number is known.

        Args:
            cluster: The cluster of the job.
            run: The name of its run.
            job: The job.
            count: The number of its nodes.
        """
        if is_serverless(cluster):
            return [Node(f"node-{index}", NodeState.RUNNING, job) for index in range(count)]
        try:
            items = self._node_items(cluster)
        except NotFoundError:  # the cluster was deleted
            return ()
        own = (item for item in items if str(item.get("runId") or "") == run)
        return [compute_messages.parse_node(item, job) for item in own]

    def _node_items(self, id: ResourceId) -> Sequence[Mapping[str, Any]]:
        items: list[Mapping[str, Any]] = []
        request = self._connection.request("POST", f"{_path(id)}/listNodes")
        for page in self._connection.pages(request):
            items += [item for item in page.get("nodes") or () if isinstance(item, dict)]
        return items

    def _job(self, run: str, workspace: ResourceId) -> ResourceId | None:
        """The job of a run, asked once; None for a run that is gone."""
        if not run:
            return None
        if run not in self._jobs:
            try:
                data = self._connection.request_json(self._connection.request("GET", f"jobs/{run}"))
                self._jobs[run] = job_id(workspace, data)
            except NotFoundError:
                self._jobs[run] = None
        return self._jobs[run]

    def _serverless(self, id: ResourceId) -> Cluster:
        """What stands for the compute of jobs without a cluster: it has as many nodes as they need."""
        scale = AutoScale(minimum_node_count=0, maximum_node_count=_MOST_SERVERLESS_NODES)
        spec = ClusterSpec(
            vm_size=self._connection.settings.size,
            scale_settings=ScaleSettings(auto_scale=scale),
            user_account_settings=UserAccountSettings(admin_user_name=compute_messages.ADMIN),
        )
        always = datetime.fromtimestamp(0, timezone.utc)
        made = Provisioning(always, always)
        return Cluster(id, spec, made, AllocationState.STEADY, always, NodeStateCounts())


def is_serverless(cluster: ResourceId) -> bool:
    """Whether a cluster's name stands for compute that the service makes for each job."""
    return cluster.name.lower() in SERVERLESS


def _path(id: ResourceId) -> str:
    return f"computes/{id.name}"


def _check_supported(spec: ClusterSpec) -> None:
    """Raises a CapabilityError for the first setting that AmlCompute has nothing for."""
    for field, why in _UNSUPPORTED.items():
        if getattr(spec, field) is not None:
            name = type(spec).model_fields[field].alias
            raise CapabilityError(
                f"properties.{name} is not supported by the azureml backend",
                code="NotSupported",
                hint=f"{why[0].upper()}{why[1:]}. Nothing was sent.",
            )


def _check_scale(scale: ScaleSettings | None) -> None:
    """Raises a CapabilityError if running jobs are to be ended: the service's nodes leave when they idle.

    Raises:
        SpecError: The cluster could never have a node.
    """
    service_limits.check_scale(scale)
    if scale and scale.manual and scale.manual.node_deallocation_option is DeallocationOption.TERMINATE:
        raise CapabilityError(
            "properties.scaleSettings.manual.nodeDeallocationOption is not supported by the azureml backend",
            code="NotSupported",
            hint="Leave it out: nodes leave when their jobs have ended. Nothing was sent.",
        )


def _no_serverless(text: str) -> CapabilityError:
    return CapabilityError(text, code="NotSupported", hint="Make a cluster with `%batchai cluster create`.")


def _different(id: ResourceId, differences: Sequence[str]) -> ConflictError:
    error = api_errors.already_exists(id)
    text = f"{error.message} It has {'; '.join(differences)}."
    return ConflictError(text, code=error.code, hint=error.hint)


class LocationFacts:
    """The sizes and quotas of the workspace's location, read again once they are old."""

    def __init__(self, connection: Connection, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._connection, self._clock = connection, clock
        self._read: dict[str, tuple[float, Sequence[Mapping[str, Any]]]] = {}

    def size(self, name: str) -> SizeFacts | None:
        """A VM size; None if the location does not have it."""
        return next((size for size in self._sizes() if size.name.lower() == name.lower()), None)

    def known_size(self, name: str) -> SizeFacts:
        """A VM size; of those that Batch AI knew, for somebody who may not read the service's list.

        Raises:
            NotFoundError: The location does not have it.
        """
        try:
            found = self.size(name)
        except UnreachableError:
            raise
        except ServiceError as error:
            return _size_of_batch_ai(name, error)
        if found is None:
            text = f"there is no VM size {name} in {self._connection.workspace.location}"
            guess = did_you_mean(name, [size.name for size in self._sizes()])
            hint = guess or "Choose one of `az vm list-sizes`, with --size or -s."
            raise NotFoundError(text, code="SizeNotFound", hint=f"{hint} Nothing was sent.")
        return found

    def usages(self, location: str = "") -> Sequence[Mapping[str, Any]]:
        """The usage of each quota, as it is now; by default of the workspace's location."""
        return [*self._connection.items(self._connection.location_request("usages", location))]

    def recent_usages(self) -> Sequence[Mapping[str, Any]]:
        """The usage of each quota in the workspace's location within the last minute."""
        return self._items("usages", _USAGES_S)

    def _sizes(self) -> Sequence[SizeFacts]:
        return [SizeFacts.from_wire(item) for item in self._items("vmSizes", _SIZES_S)]

    def _items(self, kind: str, life_s: float) -> Sequence[Mapping[str, Any]]:
        read_at, items = self._read.get(kind, (float("-inf"), ()))
        if self._clock() - read_at >= life_s:
            items = [*self._connection.items(self._connection.location_request(kind))]
            self._read[kind] = self._clock(), items
        return items


def _size_of_batch_ai(name: str, error: ServiceError) -> SizeFacts:
    """A size that Batch AI knew; else raises the error of the service."""
    try:
        size = vm_sizes.lookup(name)
    except ServiceError:
        raise error from None
    return SizeFacts(size.name, "", size.vcpus, size.gpus)
