"""Why a queued job waits, by its cluster and the quota. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from batchai_magics.backends.azureml.quota_messages import Estimate
from batchai_magics.models.resources import Cluster
from batchai_magics.models.response_object import ProvisioningState
from batchai_magics.models.states import AllocationState, NodeState

# What keeps nodes from a job: the words for one node and for several.
_TAKEN = {
    NodeState.PREEMPTED: ("was preempted", "were preempted"),
    NodeState.UNUSABLE: ("is unusable", "are unusable"),
    NodeState.RUNNING: ("runs another job", "run other jobs"),
}
_COMING = (ProvisioningState.CREATING, ProvisioningState.UPDATING)


def queue_reason(cluster: Cluster, node_count: int, estimate: Estimate | None = None) -> str:
    """Why a job waits for its nodes, without a period; the most important reasons first.

    Args:
        cluster: The job's cluster.
        node_count: The nodes that the job needs.
        estimate: What the quota says about them, where that is known.
    """
    return "; ".join(_reasons(cluster, node_count, estimate)) or "the service has queued it"


def _reasons(cluster: Cluster, node_count: int, estimate: Estimate | None) -> Iterator[str]:
    states, most = cluster.node_states, _most_nodes(cluster)
    if most < node_count:
        yield f"it can have at most {most} node{'s' * (most != 1)}"
    for error in cluster.errors:
        yield f"{error.message.rstrip('. ')} ({error.code})"
    if estimate and estimate.shortage:
        yield estimate.sentence
    ready = states.of(NodeState.IDLE)
    if cluster.provisioning.state in _COMING:
        yield "it is being created"
    elif states.of(NodeState.PREPARING) or cluster.allocation_state is AllocationState.RESIZING:
        yield f"its nodes are being allocated: {ready} of {node_count} ready"
    for state, words in _TAKEN.items():
        if states.of(state) and ready < node_count:
            yield _count(states.of(state), *words)


def _most_nodes(cluster: Cluster) -> int:
    scale = cluster.spec.scale_settings
    if scale and scale.auto_scale:
        return scale.auto_scale.maximum_node_count
    return scale.manual.target_node_count if scale and scale.manual else 0


def _count(number: int, one: str, many: str) -> str:
    return f"1 of its nodes {one}" if number == 1 else f"{number} of its nodes {many}"
