"""Quotas, VM sizes and prices of the workspace's location: whether a job will wait, and what it costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from batchai_magics.backends.azureml.clusters import Clusters, is_serverless
from batchai_magics.backends.azureml.connection import Connection
from batchai_magics.backends.azureml.quota_messages import Estimate, SizeFacts, core_quota, queue_reason
from batchai_magics.errors import ServiceError, SpecError
from batchai_magics.models.cluster_spec import VmPriority
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.prices import Price
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import Cluster
from batchai_magics.models.states import NodeState
from batchai_magics.models.subscription import Usage

_SIZES_S, _USAGES_S = 3600.0, 60.0  # how long what was read is used


class Quota:
    """The facets `usages` and `prices`, estimates made of both, and the reasons why jobs wait."""

    def __init__(
        self, connection: Connection, clusters: Clusters, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connection, self._clusters, self._clock = connection, clusters, clock
        self._read: dict[str, tuple[float, Sequence[Mapping[str, Any]]]] = {}

    def list(self, location: str) -> Sequence[Usage]:
        """The usage of each quota in the workspace's location, whatever other one is asked for."""
        return [Usage.from_wire(item) for item in self._items("usages", 0.0)]

    def node_price(self, cluster: Cluster) -> Price | None:
        """The price of a node of a cluster, by the service's estimates."""
        facts = self.size(cluster.spec.vm_size)
        per_hour = facts.price(is_spot=_is_spot(cluster)) if facts else None
        return Price(per_hour, facts.currency) if facts and per_hour is not None else None

    def nodes_of(self, job: JobSpec, cluster: Cluster) -> Cluster:
        """The cluster with the nodes of a job: a serverless one has those that each job asks for."""
        if not is_serverless(cluster.id):
            return cluster
        size = (job.backend_options.get("size") or cluster.spec.vm_size).split()[-1]
        priority = VmPriority.LOW_PRIORITY if "spot" in job.backend_options else VmPriority.DEDICATED
        spec = cluster.spec.model_copy(update={"vm_size": size, "vm_priority": priority})
        return replace(cluster, spec=spec)

    def forecast(self, job: JobSpec) -> str:
        """The nodes of a job, the quota that is left for them and their price."""
        try:
            cluster = self._clusters.show(ResourceId.parse(job.cluster.id))
            estimate = self.estimate(self.nodes_of(job, cluster), job.node_count)
        except (ServiceError, SpecError) as error:
            return f"quota and price are unknown: {error.message}"
        return estimate.sentence if estimate else ""

    def size(self, name: str) -> SizeFacts | None:
        """A VM size; None if the location does not have it."""
        sizes = map(SizeFacts.from_wire, self._items("vmSizes", _SIZES_S))
        return next((size for size in sizes if size.name.lower() == name.lower()), None)

    def estimate(
        self, cluster: Cluster, node_count: int, *, size: str = "", is_spot: bool | None = None
    ) -> Estimate | None:
        """What a job on a cluster has to wait for and costs; None for an unknown VM size.

        Args:
            cluster: The cluster.
            node_count: The nodes of the job.
            size: The VM size of a serverless job; by default the cluster's.
            is_spot: Whether a serverless job's nodes may be preempted; by default, whether the cluster's may.
        """
        facts = self.size(size or cluster.spec.vm_size)
        if facts is None:
            return None
        if is_spot is None:
            is_spot = _is_spot(cluster)
        present = sum(cluster.node_states.of(state) for state in (NodeState.IDLE, NodeState.PREPARING))
        quota = core_quota(self._items("usages", _USAGES_S), facts.family, is_spot=is_spot)
        return Estimate(node_count, facts, max(0, node_count - present), quota, is_spot)

    def waiting(
        self, cluster: Cluster, node_count: int, *, size: str = "", is_spot: bool | None = None
    ) -> str:
        """Why a queued job waits; the arguments are those of `estimate`."""
        try:
            estimate = self.estimate(cluster, node_count, size=size, is_spot=is_spot)
        except ServiceError:  # not everyone may read quotas; the cluster tells something too
            estimate = None
        return queue_reason(cluster, node_count, estimate)

    def _items(self, kind: str, life_s: float) -> Sequence[Mapping[str, Any]]:
        read_at, items = self._read.get(kind, (float("-inf"), ()))
        if self._clock() - read_at >= life_s:
            items = [*self._connection.items(self._connection.location_request(kind))]
            self._read[kind] = self._clock(), items
        return items


def _is_spot(cluster: Cluster) -> bool:
    return cluster.spec.vm_priority is VmPriority.LOW_PRIORITY
