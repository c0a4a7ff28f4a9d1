"""Why a queued job waits."""

from __future__ import annotations

from typing import Any

from batchai_magics.backends.azureml.clusters import parse_cluster
from batchai_magics.backends.azureml.quota_messages import CoreQuota, Estimate, SizeFacts, queue_reason
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import Cluster

A100 = SizeFacts("Standard_NC24ads_A100_v4", "f", 24, 1)
FULL = Estimate(1, A100, 1, CoreQuota(24, 24))


def cluster(most: int = 4, **more: Any) -> Cluster:
    own = {"vmSize": A100.name, "scaleSettings": {"minNodeCount": 0, "maxNodeCount": most}, **more}
    data = {"name": "c", "properties": {"computeType": "AmlCompute", "properties": own}}
    return parse_cluster(data, ResourceId("s", "g", "w", Kind.CLUSTER, "c"))


def counts(**numbers: int) -> dict[str, dict[str, int]]:
    return {"nodeStateCounts": {f"{state}NodeCount": number for state, number in numbers.items()}}


def test_a_cluster_that_is_too_small_is_told_first() -> None:
    assert queue_reason(cluster(most=1), 2, FULL).startswith("it can have at most 1 node; 1 × NC24")


def test_nodes_that_are_coming_are_counted() -> None:
    resizing = cluster(allocationState="Resizing", **counts(idle=1, preparing=1))
    assert queue_reason(resizing, 2) == "its nodes are being allocated: 1 of 2 ready"


def test_nodes_that_are_taken_or_lost_are_counted() -> None:
    busy = cluster(**counts(running=2, preempted=1, unusable=1))
    assert queue_reason(busy, 2) == (
        "1 of its nodes was preempted; 1 of its nodes is unusable; 2 of its nodes run other jobs"
    )
