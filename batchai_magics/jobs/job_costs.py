"""The costs of jobs: their node time at the prices in the user's settings, else at the backend's."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property

from batchai_magics.backends.base import Backend
from batchai_magics.backends.base.backend_registry import default_vm_size, load_settings
from batchai_magics.config import Settings, table_in
from batchai_magics.errors import NotFoundError, UsageError
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.prices import Cost, NodeTime, Price, total
from batchai_magics.models.resource_ids import Kind, ResourceId, workspace_id
from batchai_magics.models.resources import Cluster, JobResource, Resource
from batchai_magics.models.stop_conditions import COST, stop_condition

_HINT = 'Add it to config.yaml, as in `prices: {{"{size}": 0.90}}`, or set BATCHAI_PRICES="{size}=0.90".'


class JobCosts:
    """The costs of a backend's jobs. Each cluster is looked up once for jobs of the same options."""

    def __init__(self, backend: Backend, settings: Settings | None = None) -> None:
        """Without settings, those of this process are read when a price is first needed."""
        self._backend, self._given = backend, settings
        self._by_nodes: dict[tuple[object, ...], Price | None] = {}

    @cached_property
    def _settings(self) -> Settings:
        return self._given or load_settings()

    @property
    def has_prices(self) -> bool:
        """Whether there are any prices."""
        return bool(self._configured_prices or self._backend.prices)

    def of_cluster(self, cluster: Cluster) -> Price | None:
        """The price of a cluster's nodes, by its VM size or partition; None if it is unknown."""
        names = cluster.spec.vm_size.lower(), cluster.partition.lower()
        configured = next(
            (self._configured_prices[name] for name in names if name in self._configured_prices), None
        )
        return configured or (self._backend.prices.node_price(cluster) if self._backend.prices else None)

    def of_job(self, job: JobResource) -> Cost | None:
        """The cost of a job so far, with all its attempts; None if it has not started or has no price."""
        times = node_times(job)
        price = self.node_price(job.spec) if times and self.has_prices else None
        return price.cost_of(times, time.time()) if price else None

    def of_jobs(self, jobs: Iterable[JobResource]) -> Cost | None:
        """The total cost of jobs; None if no cost is known."""
        return total(cost for job in jobs if (cost := self.of_job(job)))

    def node_price(self, job: JobSpec) -> Price | None:
        """The price of a node of a job, whose cluster may be the default one before it exists."""
        key = job.cluster.id, *sorted(job.backend_options.items())
        if key not in self._by_nodes:
            cluster = self._cluster_of(job)
            if cluster:
                self._by_nodes[key] = self.of_cluster(cluster)
            else:
                default = workspace_id(self._settings).child(Kind.CLUSTER, self._settings.cluster)
                is_default = ResourceId.parse(job.cluster.id).key == default.key
                size = default_vm_size(self._settings) if is_default else ""
                self._by_nodes[key] = self._configured_prices.get(size.lower())
        return self._by_nodes[key]

    def _cluster_of(self, job: JobSpec) -> Cluster | None:
        """The cluster of a job, with the nodes that it gets; None if there is no such cluster (yet)."""
        try:
            cluster = self._backend.show(ResourceId.parse(job.cluster.id))
        except NotFoundError:
            return None
        if not isinstance(cluster, Cluster):
            return None
        return self._backend.prices.nodes_of(job, cluster) if self._backend.prices else cluster

    @cached_property
    def _configured_prices(self) -> dict[str, Price]:
        prices = table_in(self._settings.prices)
        return {
            name.lower(): Price(float(text), self._settings.currency) for name, text in prices.items() if text
        }

    def idle_notes(self, clusters: Iterable[Resource]) -> Iterator[str]:
        """A sentence for each cluster whose idle nodes cost money and are not removed.

        The nodes of a partition belong to the engine: idle ones cost nothing here.
        """
        for cluster in clusters if self.has_prices else ():
            if not isinstance(cluster, Cluster) or cluster.partition:
                continue
            price, count = self.of_cluster(cluster), cluster.node_states.idle_node_count
            scale = cluster.spec.scale_settings
            is_shrinking = scale and scale.auto_scale and not scale.auto_scale.minimum_node_count
            if not price or not price.per_hour or not count or is_shrinking:
                continue
            nodes = "an idle node, which costs" if count == 1 else f"{count} idle nodes, which cost"
            cost, most = Cost(count * price.per_hour, price.currency).text, cluster.node_states.total
            fix = f"cluster auto-scale -n {cluster.id.name} --min 0 --max {most}"
            yield f"Cluster {cluster.id.name} has {nodes} {cost} an hour; `{fix}` keeps none without a job."

    def price_for_conditions(self, conditions: Sequence[str], job: JobSpec) -> float:
        """The price that stop conditions of a job need; 0 if they need none.

        Raises:
            UsageError: A condition is on the cost, and the price is unknown.
        """
        text = next((text for text in conditions if stop_condition(text).metric == COST), "")
        if not text:
            return 0.0
        price = self.node_price(job)
        if price is None:
            cluster = self._cluster_of(job)
            size = cluster.spec.vm_size if cluster else default_vm_size(self._settings)
            raise UsageError(
                f'--stop-if "{text}": the price of {size} is unknown', hint=_HINT.format(size=size)
            )
        return price.per_hour


def node_times(job: JobResource) -> list[NodeTime]:
    """The node times of a job's attempts; empty before it starts."""
    if job.attempts:
        return [
            NodeTime(len(attempt.nodes), attempt.started.timestamp(), _seconds(attempt.ended))
            for attempt in job.attempts
        ]
    execution = job.execution
    if execution is None:
        return []
    return [NodeTime(job.spec.node_count, execution.started.timestamp(), _seconds(execution.ended))]


def _seconds(time: datetime | None) -> float | None:
    return time.timestamp() if time else None
