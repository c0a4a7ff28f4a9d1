"""The dashboard of a cluster: its model, which all views share, and the stream of a view."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timezone

from batchai_magics.backends.base import Backend
from batchai_magics.cards.card_parts import table_card_text
from batchai_magics.cards.cluster_card import cluster_card, describe_scale, target_node_count, to_html
from batchai_magics.errors import BatchAIError
from batchai_magics.follow.status_poller import StatusPoller
from batchai_magics.models.cluster_spec import ClusterPatch
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import Cluster, Node
from batchai_magics.models.states import AllocationState, NodeState
from batchai_magics.widgets.core.display import Bundle
from batchai_magics.widgets.core.view_stream import Batch, PageData, milliseconds, reply_to
from batchai_magics.widgets.dashboards.dashboard import DashboardModel, DashboardStream

NODES_TTL_S = 4.0  # cache TTL of the node list: two nodes that swap states change no count


class ClusterModel(DashboardModel):
    """A cluster's latest state and nodes; never over before the cluster is deleted."""

    noun = "cluster"
    max_interval_s = 2.0

    def __init__(
        self, backend: Backend, id: ResourceId, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self.backend = backend
        self.id = id
        self.cluster: Cluster | None = None
        self.nodes: tuple[Node, ...] = ()
        self._clock = clock
        self._status_poller = StatusPoller(backend, [id], clock=clock)
        self._nodes_due_at = 0.0

    def poll(self) -> bool:
        """Returns whether the cluster has changed. Raises NotFoundError once it is deleted."""
        status = self._status_poller.poll()
        if status is None:
            return False
        cluster = status.of(self.id) or self.backend.show(self.id)  # raises NotFoundError
        assert isinstance(cluster, Cluster)
        nodes = self.nodes
        if self.cluster != cluster or self._clock() >= self._nodes_due_at:
            self._nodes_due_at = self._clock() + NODES_TTL_S
            nodes = tuple(self.backend.nodes(self.id))
        if (cluster, nodes) == (self.cluster, self.nodes):
            return False
        self.cluster, self.nodes = cluster, nodes
        self.version += 1
        return True

    @property
    def is_at_rest(self) -> bool:
        """Whether the cluster is steady and its nodes are idle or unusable."""
        if self.cluster is None:
            return True
        is_still = all(node.state in (NodeState.IDLE, NodeState.UNUSABLE) for node in self.nodes)
        return is_still and self.cluster.allocation_state is AllocationState.STEADY

    @property
    def reopen_command(self) -> str:
        """The command that shows the cluster again."""
        return f"%batchai cluster show -n {self.id.name}"

    def facts(self) -> PageData:
        """What the view's header shows (`ClusterFacts` in frontend/core/messages.d.ts)."""
        if self.cluster is None:
            return {"name": self.id.name, "problem": self.problem}
        cluster, spec, current = self.cluster, self.cluster.spec, self.cluster.node_states.total
        manual = spec.scale_settings.manual if spec.scale_settings else None
        auto = spec.scale_settings.auto_scale if spec.scale_settings else None
        scale: PageData = {"kind": "auto" if auto else "manual"}
        if manual:
            scale["target"] = manual.target_node_count
        if auto:
            scale |= {"minimum": auto.minimum_node_count, "maximum": auto.maximum_node_count}
        return {
            "name": cluster.id.name,
            "state": cluster.allocation_state.value,
            "since": milliseconds(cluster.allocation_changed),
            "vm_size": spec.vm_size,
            "is_low_priority": spec.vm_priority.value == "lowpriority",
            "current": current,
            "target": target_node_count(spec.scale_settings, current),
            "scale": scale,
            "scale_words": describe_scale(spec.scale_settings),
            "counts": {state.value: cluster.node_states.of(state) for state in NodeState},
            "errors": [{"code": e.code, "message": e.message} for e in cluster.errors],
            "problem": self.problem,
        }

    def rows(self) -> list[PageData]:
        """The nodes (`NodeRow` in frontend/core/messages.d.ts)."""
        return [
            {
                "id": node.id,
                "state": node.state.value,
                "job": node.job.name if node.job else "",
                "since": node.since and milliseconds(node.since),
            }
            for node in self.nodes
        ]

    def bundle(self) -> Bundle:
        """A snapshot of the cluster as HTML and text."""
        if self.cluster is None:
            return {"text/plain": f"cluster {self.id.name}"}
        card = cluster_card(self.cluster, self.nodes, datetime.now(timezone.utc), self.reopen_command)
        return {"text/html": to_html(card), "text/plain": table_card_text(card)}


class ClusterStream(DashboardStream):
    """Nodes as tiles; the request `scale` resizes the cluster or turns auto-scale on."""

    script = "cluster_dashboard"
    _model: ClusterModel

    def respond(self, content: PageData) -> Batch:
        """Applies `content["settings"]`, which has the shape of `scaleSettings` in cluster.json."""
        if content.get("kind") != "scale":
            return super().respond(content)
        try:
            patch = ClusterPatch.from_wire({"properties": {"scaleSettings": content.get("settings")}})
            self._model.backend.update(self._model.id, patch)
        except BatchAIError as error:
            return reply_to(content, text=str(error))
        return reply_to(content, text="")
