"""The live view of a cluster: its nodes, and its size, which can be changed from the page."""

from __future__ import annotations

from typing import Any

from batchai_magics.backends.base import Backend
from batchai_magics.errors import BatchAIError
from batchai_magics.models.cluster import ClusterPatch
from batchai_magics.widgets.boards.board_view import BoardView, Clock, Work, answer
from batchai_magics.widgets.boards.cluster_feed import ClusterFeed


class ClusterView(BoardView):
    """Nodes as tiles; `scale` resizes the cluster or lets it scale by itself."""

    script = "cluster_view"
    requests = ("scale",)

    def __init__(
        self, backend: Backend, feed: ClusterFeed, *, view_id: str, work: Work, clock: Clock
    ) -> None:
        self._backend = backend
        self._id = feed.id
        super().__init__(feed, view_id=view_id, work=work, clock=clock)

    def answer_scale(self, content: dict[str, Any]) -> dict[str, Any]:
        """Changes the cluster's scale to `content["settings"]`, which is `scaleSettings` of cluster.json."""
        try:
            patch = ClusterPatch.from_wire({"properties": {"scaleSettings": content.get("settings")}})
            self._backend.update(self._id, patch)
        except BatchAIError as error:
            return answer(content, str(error), is_done=False)
        return answer(content, "")
