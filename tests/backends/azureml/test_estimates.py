"""Quotas and prices, what they mean for a job, and why a queued one waits."""

from __future__ import annotations

from typing import Any

import pytest

from batchai_magics.backends.azureml.clusters import SizeFacts, parse_cluster
from batchai_magics.backends.azureml.quota import CoreQuota, Estimate, core_quota, queue_reason
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import Cluster

FAMILY = "StandardNCADSA100v4Family"
PRICES = {
    "billingCurrency": "USD",
    "unitOfMeasure": "OneHour",
    "values": [
        {"retailPrice": 9.0, "osType": "Windows", "vmTier": "Standard"},
        {"retailPrice": 3.673, "osType": "Linux", "vmTier": "Standard"},
        {"retailPrice": 0.735, "osType": "Linux", "vmTier": "LowPriority"},
    ],
}
A100 = SizeFacts.from_wire(
    {
        "name": "Standard_NC24ads_A100_v4",
        "family": FAMILY,
        "vCPUs": 24,
        "gpus": 1,
        "estimatedVMPrices": PRICES,
    }
)


def usage(name: str, current: int, limit: int, kind: str = "vmFamily") -> dict[str, Any]:
    return {
        "type": f"Microsoft.MachineLearningServices/{kind}/usages",
        "currentValue": current,
        "limit": limit,
        "name": {"value": name, "localizedValue": name},
    }


def test_a_job_that_exceeds_the_quota_would_wait_for_ever():
    estimate = Estimate(2, A100, 2, CoreQuota(24, 24))
    assert estimate.sentence == (
        "2 × NC24ads_A100_v4, 0 of 24 cores free: more than the quota, which must be raised to 48"
        "; about 7.35 USD an hour"
    )


@pytest.mark.parametrize(
    ("quota", "new", "words"),
    [
        (CoreQuota(48, 48), 2, ", 0 of 48 cores free: will queue"),
        (CoreQuota(0, 96), 2, ", 96 of 96 cores free"),
        (CoreQuota(48, 48), 0, ""),  # its cluster has the nodes already
        (CoreQuota(7, -1), 2, ""),
        (None, 2, ""),
    ],
)
def test_the_quota_is_told_where_nodes_must_be_allocated(quota, new, words):
    estimate = Estimate(2, A100, new, quota)
    assert estimate.sentence == f"2 × NC24ads_A100_v4{words}; about 7.35 USD an hour"
    assert estimate.will_queue == ("will queue" in words)


def test_nodes_that_may_be_preempted_have_their_own_price_and_quota():
    usages = [usage(FAMILY, 95, 96), usage("low", 90, 100, "lowPriorityCores")]
    quota = core_quota(usages, FAMILY, is_spot=True)
    estimate = Estimate(1, A100, 1, quota, is_spot=True)
    assert estimate.sentence == (
        "1 × NC24ads_A100_v4, 10 of 100 low-priority cores free: will queue; about 0.73 USD an hour"
    )


@pytest.mark.parametrize(
    ("usages", "expected"),
    [
        ([usage("standardDSv2Family", 0, 4), usage(FAMILY.lower(), 24, 96)], CoreQuota(24, 96)),
        ([usage(FAMILY, 24, 96), usage(FAMILY, 24, 24)], CoreQuota(24, 24)),
    ],
    ids=["of its family in any case", "the workspace's own"],
)
def test_the_tightest_quota_of_a_family_counts(usages, expected):
    assert core_quota(usages, FAMILY, is_spot=False) == expected


def test_a_service_that_tells_no_price_gets_no_price():
    size = SizeFacts.from_wire({"name": "Standard_X", "family": "f", "vCPUs": 4, "estimatedVMPrices": None})
    assert Estimate(3, size, 3).sentence == "3 × X"


# why a job waits


def cluster(most: int = 4, **more: Any) -> Cluster:
    own = {"vmSize": A100.name, "scaleSettings": {"minNodeCount": 0, "maxNodeCount": most}, **more}
    data = {"name": "c", "properties": {"computeType": "AmlCompute", "properties": own}}
    return parse_cluster(data, ResourceId("s", "g", "w", Kind.CLUSTER, "c"))


def counts(**numbers: int) -> dict[str, dict[str, int]]:
    return {"nodeStateCounts": {f"{state}NodeCount": number for state, number in numbers.items()}}


def test_a_cluster_that_is_too_small_is_told_first():
    assert queue_reason(cluster(most=1), 2, Estimate(1, A100, 1, CoreQuota(24, 24))).startswith(
        "it can have at most 1 node; 1 × NC24"
    )


def test_nodes_that_are_coming_are_counted():
    resizing = cluster(allocationState="Resizing", **counts(idle=1, preparing=1))
    assert queue_reason(resizing, 2) == "its nodes are being allocated: 1 of 2 ready"


def test_nodes_that_are_taken_or_lost_are_counted():
    busy = cluster(**counts(running=2, preempted=1, unusable=1))
    assert queue_reason(busy, 2) == (
        "1 of its nodes was preempted; 1 of its nodes is unusable; 2 of its nodes run other jobs"
    )
