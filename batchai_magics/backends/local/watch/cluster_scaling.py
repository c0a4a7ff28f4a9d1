"""Manual and automatic scaling of clusters.

An auto-scale cluster grows at once for queued jobs, and shrinks when nodes have been idle for a while.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from batchai_magics.backends.local.state import cluster_table, job_queue, node_table
from batchai_magics.backends.local.state.store import Database, Store
from batchai_magics.models.states import DeallocationOption, NodeState

if TYPE_CHECKING:
    from batchai_magics.backends.service.runner import ClusterRef


def resize(db: Database, cluster: ClusterRef, option: DeallocationOption) -> list[str]:
    """Gives a new or resized cluster its nodes; returns the guids of the jobs that have to stop."""
    row, scale = cluster_table.find(db, cluster.guid), cluster.scale
    if row is None:  # deleted meanwhile
        return []
    if not scale.is_auto:
        cluster_table.set_bounds(db, row.key, None, None)
        return node_table.resize(db, row.key, scale.maximum, option)
    cluster_table.set_bounds(db, row.key, scale.minimum, scale.maximum)
    present = row.target if row.next_ordinal else scale.initial
    target = max(scale.minimum, min(scale.maximum, present))
    return node_table.resize(db, row.key, target, DeallocationOption.REQUEUE)


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
