"""The service's quotas, VM sizes and prices, what they mean for a job, and why a queued one waits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from batchai_magics.models.resources import Cluster
from batchai_magics.models.response_object import ProvisioningState, ResponseObject
from batchai_magics.models.states import AllocationState, NodeState

_HOUR = "onehour"
_DEDICATED_TIERS, _SPOT_TIERS = ("standard",), ("lowpriority", "spot")
_LOW_PRIORITY = "/lowprioritycores/"  # in the type of the one quota of all families' low-priority cores


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
        """Reads an item of `vmSizes`; ServiceError if a field is missing or invalid."""
        size = ResponseObject.of(data, "the VM size")
        listed = size.object("estimatedVMPrices")
        is_hourly = listed.text("unitOfMeasure", "OneHour").lower() == _HOUR
        values = [ResponseObject.of(item, "the price") for item in listed.items("values") if is_hourly]
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
            currency=listed.text("billingCurrency", "USD"),
        )

    def price(self, *, is_spot: bool) -> float | None:
        """The price of one node for an hour; None if the service does not tell it."""
        tiers = _SPOT_TIERS if is_spot else _DEDICATED_TIERS
        return next((self.prices[tier] for tier in tiers if self.prices.get(tier)), None)

    @property
    def short_name(self) -> str:
        """The name without its first word."""
        return self.name.removeprefix("Standard_")


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
    """The quota among `usages` that limits nodes of a family most tightly; None if there is none for it.

    A workspace may have a part of the subscription's. Nodes of all families that may be preempted share one.
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
    """What a job is going to cost, and whether it has to wait for quota."""

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
        """Whether the whole quota is too small, whatever ends: the service refuses such a job."""
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
        if (each := self.size.price(is_spot=self.is_spot)) is not None:
            words += f"; about {each * self.node_count:.2f} {self.size.currency} an hour"
        return words

    @property
    def _free_words(self) -> str:
        if self.quota is None or self.quota.free is None or not self.new_node_count:
            return ""
        return f"{self.quota.free} of {self.quota.limit} {'low-priority ' * self.is_spot}cores free"


# What keeps nodes from a job: the words for one node and for several.
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
    states, most = cluster.node_states, scale.most_nodes if scale else 0
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
