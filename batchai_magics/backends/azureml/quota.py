"""Quotas and prices of the workspace's location: whether a job can run, why it waits, what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from batchai_magics.backends.azureml import job_requests
from batchai_magics.backends.azureml.clusters import Clusters, SizeFacts, is_serverless
from batchai_magics.backends.base import api_errors
from batchai_magics.errors import CapabilityError, ConflictError, NotFoundError, ServiceError, SpecError
from batchai_magics.models.cluster_spec import VmPriority
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.prices import Price
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import Cluster
from batchai_magics.models.response_object import ProvisioningState, ResponseObject
from batchai_magics.models.states import AllocationState, NodeState
from batchai_magics.models.subscription import Usage


class Quota:
    """The facets `usages` and `prices`, estimates made of both, and the reasons why jobs wait."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters, self._location = clusters, clusters.location

    def list(self, location: str) -> Sequence[Usage]:
        """The usage of each quota in a location; raises ServiceError if the location lacks the service."""
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

        Raises:
            ConflictError: They exceed the whole quota.
            NotFoundError: There is no such cluster or VM size.
            SpecError: The cluster never has that many nodes, or its nodes never run that long.
        """
        id = ResourceId.parse(job.cluster.id)
        try:
            cluster = self.nodes_of(job, self._clusters.show(id))
        except NotFoundError:
            hint = "List them with `%batchai cluster list`, or leave the cluster out."
            raise NotFoundError(f"there is no cluster {id.name}", code="ClusterNotFound", hint=hint) from None
        most = cluster.spec.scale_settings.max_nodes if cluster.spec.scale_settings else 0
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
        """The nodes of a job, the free quota for them and their price; or why the job is refused."""
        try:
            cluster, _ = self.nodes_for(job)
            estimate = self.estimate(cluster, job.node_count)
        except (CapabilityError, ConflictError, NotFoundError, SpecError) as error:
            return f"problem: {error.message}"
        except ServiceError as error:
            return f"quota and price are unknown: {error.message}"
        return estimate.sentence if estimate else ""

    def estimate(self, cluster: Cluster, node_count: int) -> Estimate | None:
        """The estimate for a job on these nodes of a cluster; None for an unknown VM size."""
        facts, is_spot = self._location.size(cluster.spec.vm_size), is_low_priority(cluster)
        if facts is None:
            return None
        present = sum(cluster.node_states.of(state) for state in (NodeState.IDLE, NodeState.PREPARING))
        quota = core_quota(self._location.recent_usages(), facts.family, is_spot=is_spot)
        return Estimate(node_count, facts, max(0, node_count - present), quota, is_spot)

    def wait_reason(self, cluster: Cluster, node_count: int) -> str:
        """Why a queued job waits; takes the arguments of `estimate`."""
        return queue_reason(cluster, node_count, self._estimate_or_none(cluster, node_count))

    def _estimate_or_none(self, cluster: Cluster, node_count: int) -> Estimate | None:
        """The estimate; None if quotas cannot be read, for which some users lack the permission."""
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


_LOW_PRIORITY = "/lowprioritycores/"  # in the type of the one quota of all families' low-priority cores


@dataclass(frozen=True)
class CoreQuota:
    """The cores of a quota: those in use, and how many there may be; -1 for no limit."""

    current: int
    limit: int

    @property
    def free(self) -> int | None:
        """The cores that are left; None without a limit."""
        return None if self.limit < 0 else max(0, self.limit - self.current)


def core_quota(items: Iterable[Mapping[str, Any]], family: str, *, is_spot: bool) -> CoreQuota | None:
    """The quota among `usages` that limits nodes of a family most tightly; None if no quota applies.

    A workspace may have a part of the subscription's quota. Low-priority nodes of all families share one.
    """
    quotas = []
    for item in items:
        usage = ResponseObject.of(item, "the usage")
        is_low = _LOW_PRIORITY in usage.text("type", "").lower()
        name = usage.object("name").text("value", "")
        if is_low == is_spot and (is_spot or name.lower() == family.lower()):
            quota = CoreQuota(usage.number("currentValue", 0), usage.number("limit", -1))
            quotas.append(quota)
    limited = [quota for quota in quotas if quota.free is not None]
    return min(limited, key=lambda quota: quota.free or 0, default=quotas[0] if quotas else None)


@dataclass(frozen=True)
class Estimate:
    """An estimate of the cost of a job, and of whether it has to wait for quota."""

    node_count: int
    size: SizeFacts
    new_node_count: int  # nodes that the service has to allocate
    quota: CoreQuota | None = None  # the quota for these; None if unknown
    is_spot: bool = False  # whether they may be preempted

    @property
    def will_queue(self) -> bool:
        """Whether the quota is too small at present."""
        free = self.quota.free if self.quota else None
        return free is not None and self.new_node_count * self.size.cores > free

    @property
    def exceeds_quota(self) -> bool:
        """Whether the whole quota is too small: the service refuses such a job."""
        needed = self.node_count * self.size.cores if self.new_node_count else 0
        return self.quota is not None and 0 <= self.quota.limit < needed

    @property
    def sentence(self) -> str:
        """Nodes, quota and price: `2 × NC24ads_A100_v4, 0 of 24 cores free: will queue; about 7.35 USD/h`."""
        words = f"{self.node_count} × {self.size.short_name}"
        if self._free_words:
            words += f", {self._free_words}"
        if self.exceeds_quota:
            words += f": more than the quota, which must be raised to {self.node_count * self.size.cores}"
        elif self.will_queue:
            words += ": will queue"
        if (node_price := self.size.price(is_spot=self.is_spot)) is not None:
            words += f"; about {node_price * self.node_count:.2f} {self.size.currency} an hour"
        return words

    @property
    def _free_words(self) -> str:
        if self.quota is None or self.quota.free is None or not self.new_node_count:
            return ""
        return f"{self.quota.free} of {self.quota.limit} {'low-priority ' * self.is_spot}cores free"


# States of nodes that keep a job waiting: the words for one node and for several.
_TAKEN = {
    NodeState.PREEMPTED: ("was preempted", "were preempted"),
    NodeState.UNUSABLE: ("is unusable", "are unusable"),
    NodeState.RUNNING: ("runs another job", "run other jobs"),
}
_COMING = (ProvisioningState.CREATING, ProvisioningState.UPDATING)


def queue_reason(cluster: Cluster, node_count: int, estimate: Estimate | None = None) -> str:
    """Why a job waits for its nodes, without a period; the most important reasons first."""
    return "; ".join(_reasons(cluster, node_count, estimate)) or "the service has queued it"


def _reasons(cluster: Cluster, node_count: int, estimate: Estimate | None) -> Iterator[str]:
    scale = cluster.spec.scale_settings
    states, most = cluster.node_states, scale.max_nodes if scale else 0
    if most < node_count:
        yield f"it can have at most {most} node{'s' * (most != 1)}"
    for error in cluster.errors:
        yield f"{error.message.rstrip('. ')} ({error.code})"
    if estimate and estimate.will_queue:
        yield estimate.sentence
    ready = states.of(NodeState.IDLE)
    if cluster.provisioning.state in _COMING:
        yield "it is being created"
    elif states.of(NodeState.PREPARING) or cluster.allocation_state is AllocationState.RESIZING:
        yield f"its nodes are being allocated: {ready} of {node_count} ready"
    for state, words in _TAKEN.items():
        if states.of(state) and ready < node_count:
            count = states.of(state)
            yield f"{count} of its nodes {words[0] if count == 1 else words[1]}"
