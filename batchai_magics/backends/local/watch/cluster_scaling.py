"""Manual and automatic scaling of clusters.

An auto-scale cluster grows at once for queued jobs, and shrinks when nodes have been idle for a while.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from batchai_magics.backends.local.state import cluster_table, job_queue, node_table, resource_table
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.models.states import DeallocationOption, NodeState

if TYPE_CHECKING:
    from batchai_magics.models.cluster_spec import ClusterPatch
    from batchai_magics.models.resource_ids import ResourceId


def resize(store: Store, id: ResourceId, patch: ClusterPatch, *, core_quota: int) -> list[str]:
    """Changes a cluster's scale; returns the guids of the jobs that have to stop."""
    from batchai_magics.backends.local.state import stored_specs  # loads the models
    from batchai_magics.backends.service import quotas
    from batchai_magics.models.cluster_spec import ClusterSpec

    manual, auto = patch.scale_settings.manual, patch.scale_settings.auto_scale
    with store.write() as db:
        old = ClusterSpec.from_wire(json.loads(resource_table.get(db, id).spec))
        spec = old.model_copy(update={"scale_settings": patch.scale_settings})
        resource_table.change_spec(db, id, json.dumps(spec.to_wire()))
        if auto:
            least, most = auto.minimum_node_count, auto.maximum_node_count
            cluster_table.set_bounds(db, id.key, least, most)
            present = max(least, min(most, cluster_table.get(db, id.key).target))
            return node_table.resize(db, id.key, present, DeallocationOption.REQUEUE)
        assert manual, "ScaleSettings holds one of the two"
        cluster_table.set_bounds(db, id.key, None, None)
        wanted = quotas.Nodes(spec.vm_size, manual.target_node_count)
        quotas.check(wanted, stored_specs.quota_nodes(db, except_for=id.key), core_quota)
        return node_table.resize(db, id.key, manual.target_node_count, manual.node_deallocation_option)


def adjust(store: Store) -> None:
    """Sets the target of every auto-scale cluster from its queue."""
    with store.read() as db:
        found = cluster_table.auto_scaled(db)
        changed = [row for row in found if _wanted(db, row) != len(node_table.not_leaving(db, row.key))]
    for row in changed:
        with store.write() as db:
            for now in cluster_table.auto_scaled(db, row.key):  # unless gone or of fixed size now
                wanted = _wanted(db, now)
                node_table.resize(db, row.key, wanted, DeallocationOption.WAIT_FOR_JOB_COMPLETION)


def _wanted(db: Database, cluster: cluster_table.ClusterRow) -> int:
    busy, fresh, stale = _count(node_table.not_leaving(db, cluster.key), time.time() - cluster.idle_s)
    queued = job_queue.nodes_waited_for(db, cluster.key)
    wanted = busy + max(queued, fresh + (stale if queued else 0))
    return max(cluster.minimum or 0, wanted if cluster.maximum is None else min(cluster.maximum, wanted))


def _count(present: list[node_table.NodeRow], idle_before: float) -> tuple[int, int, int]:
    """The numbers of busy, recently idle (or not ready), and long idle nodes."""
    busy = sum(node.state is NodeState.RUNNING for node in present)
    stale = sum(node.state is NodeState.IDLE and node.since < idle_before for node in present)
    return busy, len(present) - busy - stale, stale
