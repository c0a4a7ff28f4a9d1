"""Whether settling may have something to do: asked of the store alone, without the models."""

from __future__ import annotations

from batchai_magics.backends.local.state import clusters, nodes, queue
from batchai_magics.backends.local.state.store import Store


def may_be_due(store: Store) -> bool:
    """Whether nodes are being prepared, clusters scale by themselves, or jobs wait for nodes."""
    with store.read() as db:
        return (
            nodes.is_any_preparing(db) or clusters.is_any_auto_scaled(db) or bool(queue.waiting_clusters(db))
        )
