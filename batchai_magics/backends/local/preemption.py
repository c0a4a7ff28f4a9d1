"""Nodes of lowpriority clusters that can be taken away on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchai_magics.backends.service import api_errors, resource_views
from batchai_magics.backends.service.context import Context, cluster_of
from batchai_magics.models.cluster_spec import VmPriority

if TYPE_CHECKING:
    from batchai_magics.backends.local.runner import LocalRunner
    from batchai_magics.models.resource_ids import ResourceId


class LocalPreemption:
    """Preempts nodes of lowpriority clusters on request."""

    def __init__(self, context: Context, runner: LocalRunner) -> None:
        self._context, self._runner = context, runner

    def preempt(self, cluster: ResourceId, node_id: str) -> None:
        """Removes a node of a lowpriority cluster; its job is requeued, and a new node replaces it."""
        record = self._context.repository.get(cluster)
        if resource_views.cluster_spec(record.spec).vm_priority is not VmPriority.LOW_PRIORITY:
            raise api_errors.not_low_priority(cluster)
        if not self._runner.preempt(cluster_of(record), node_id):
            raise api_errors.node_not_found(node_id)
        self._runner.settle()
