"""A workspace with an experiment and a cluster, and the jobs and clusters that tests create in it."""

from __future__ import annotations

from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.wire_bodies import plain_cluster, plain_job

WORKSPACE = ResourceId("s", "g", "w", Kind.WORKSPACE, "w")
EXPERIMENT = WORKSPACE.child(Kind.EXPERIMENT, "e")
CLUSTER = WORKSPACE.child(Kind.CLUSTER, "c")


def cluster_spec(count: int = 2, **properties: object) -> ClusterSpec:
    """A cluster of so many nodes."""
    return ClusterSpec.from_wire(plain_cluster(count, **properties))


def job_spec(**properties: object) -> JobSpec:
    """A job on one node of the cluster."""
    return JobSpec.from_wire(plain_job(CLUSTER, **properties))
