"""Quotas and prices of the workspace's location: whether a job can run, whether it waits, what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from batchai_magics.backends.azureml import job_requests
from batchai_magics.backends.azureml.clusters import Clusters, is_serverless
from batchai_magics.backends.azureml.quota_messages import Estimate, SizeFacts, core_quota, queue_reason
from batchai_magics.backends.base import api_errors
from batchai_magics.errors import CapabilityError, ConflictError, NotFoundError, ServiceError, SpecError
from batchai_magics.models.cluster_spec import VmPriority
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.prices import Price
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import Cluster
from batchai_magics.models.states import NodeState
from batchai_magics.models.subscription import Usage


class Quota:
    """The facets `usages` and `prices`, estimates made of both, and the reasons why jobs wait."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters, self._location = clusters, clusters.location

    def list(self, location: str) -> Sequence[Usage]:
        """The usage of each quota in a location; ServiceError if the service is not there."""
        return [Usage.from_wire(item) for item in self._location.usages(location)]

    def node_price(self, cluster: Cluster) -> Price | None:
        """The price of a node of a cluster, by the service's estimates."""
        facts = self._location.size(cluster.spec.vm_size)
        per_hour = facts.price(is_spot=is_low_priority(cluster)) if facts else None
        return Price(per_hour, facts.currency) if facts and per_hour is not None else None

    def nodes_of(self, job: JobSpec, cluster: Cluster) -> Cluster:
        """The cluster with the nodes of a job: a serverless one has those that each job asks for."""
        if not is_serverless(cluster.id):
            return cluster
        size = (job.backend_options.get("size") or cluster.spec.vm_size).split()[-1]
        return with_nodes(cluster, size, is_spot=job_requests.is_spot(job))

    def nodes_for(self, job: JobSpec) -> tuple[Cluster, SizeFacts]:
        """The cluster with the nodes that a job gets, and their size; reads only.

        Raises ConflictError if they exceed the quota, whatever ends; NotFoundError if there is no such
        cluster or VM size; SpecError if the cluster never has so many nodes, or its nodes never so much time.
        """
        id = ResourceId.parse(job.cluster.id)
        try:
            cluster = self.nodes_of(job, self._clusters.show(id))
        except NotFoundError:
            hint = "List them with `%batchai cluster list`, or leave the cluster out."
            raise NotFoundError(f"there is no cluster {id.name}", code="ClusterNotFound", hint=hint) from None
        most = cluster.spec.scale_settings.most_nodes if cluster.spec.scale_settings else 0
        if job.node_count > most and not is_serverless(cluster.id):
            raise api_errors.too_many_nodes(job.node_count, cluster.id, most)
        job_requests.check_lifetime(job, is_spot=is_low_priority(cluster))
        size = self._location.known_size(cluster.spec.vm_size)
        estimate = self._estimate_or_none(cluster, job.node_count)
        if estimate and estimate.exceeds_quota:
            limit, size = estimate.quota.limit if estimate.quota else 0, estimate.size
            most, kind = limit // max(1, size.cores), "low-priority " * estimate.is_spot
            text = (
                f"{estimate.node_count} × {size.name} need {estimate.node_count * size.cores} {kind}cores, "
                f"and the quota is {limit}"
            )
            fewer = f"Ask for at most {most} node{'s' * (most != 1)}, choose" if most else "Choose"
            hint = f"{fewer} another VM size, or raise the quota in Azure's portal. Nothing was sent."
            raise ConflictError(text, code="QuotaExceeded", hint=hint)
        return cluster, size

    def forecast(self, job: JobSpec) -> str:
        """The nodes of a job, the quota that is left for them and their price; or why it is refused."""
        try:
            cluster, _ = self.nodes_for(job)
            estimate = self.estimate(cluster, job.node_count)
        except (CapabilityError, ConflictError, NotFoundError, SpecError) as error:
            return f"problem: {error.message}"
        except ServiceError as error:
            return f"quota and price are unknown: {error.message}"
        return estimate.sentence if estimate else ""

    def estimate(self, cluster: Cluster, node_count: int) -> Estimate | None:
        """What a job on these nodes of a cluster has to wait for and costs; None for an unknown VM size."""
        facts, is_spot = self._location.size(cluster.spec.vm_size), is_low_priority(cluster)
        if facts is None:
            return None
        present = sum(cluster.node_states.of(state) for state in (NodeState.IDLE, NodeState.PREPARING))
        quota = core_quota(self._location.recent_usages(), facts.family, is_spot=is_spot)
        return Estimate(node_count, facts, max(0, node_count - present), quota, is_spot)

    def wait_reason(self, cluster: Cluster, node_count: int) -> str:
        """Why a queued job waits; the arguments are those of `estimate`."""
        return queue_reason(cluster, node_count, self._estimate_or_none(cluster, node_count))

    def _estimate_or_none(self, cluster: Cluster, node_count: int) -> Estimate | None:
        """The estimate; None where it cannot be read: not everyone may read quotas."""
        try:
            return self.estimate(cluster, node_count)
        except ServiceError:
            return None


def with_nodes(cluster: Cluster, size: str, *, is_spot: bool) -> Cluster:
    """A serverless cluster with the nodes of a job, which may be preempted if they are spot ones."""
    priority = VmPriority.LOW_PRIORITY if is_spot else VmPriority.DEDICATED
    spec = cluster.spec.model_copy(update={"vm_size": size, "vm_priority": priority})
    return replace(cluster, spec=spec)


def is_low_priority(cluster: Cluster) -> bool:
    """Whether the nodes of a cluster may be preempted."""
    return cluster.spec.vm_priority is VmPriority.LOW_PRIORITY
