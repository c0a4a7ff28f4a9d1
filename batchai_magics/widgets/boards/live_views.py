"""The live views of a cluster, which can be resized, and of an experiment's jobs, which can be opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from batchai_magics.backends.base import Backend
from batchai_magics.errors import BatchAIError
from batchai_magics.models.cluster import ClusterPatch
from batchai_magics.models.ids import ResourceId
from batchai_magics.widgets.boards.board_view import BoardView, Work, answer
from batchai_magics.widgets.boards.cluster_feed import ClusterFeed
from batchai_magics.widgets.boards.jobs_feed import MOST_ROWS, JobsFeed
from batchai_magics.widgets.core.showing import Clock
from batchai_magics.widgets.job.facts import progress_fields

RATES_AT_ONCE = 20

Open = Callable[[ResourceId], str]


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


class JobsView(BoardView):
    """Jobs as rows, each with its images/sec. `open` makes a job's live view; the page puts it below.

    `open_job` makes the view of a job and gives its model's id.
    """

    script = "jobs_view"
    requests = ("open",)

    def __init__(self, feed: JobsFeed, *, view_id: str, work: Work, clock: Clock, open_job: Open) -> None:
        self._jobs = feed
        self._open_job = open_job
        self._sent: dict[str, int] = {}
        super().__init__(feed, view_id=view_id, work=work, clock=clock)

    def greet(self) -> None:
        """A page has said hello: it has no images/sec."""
        self._sent = {}

    def more(self, limit_bytes: int) -> dict[str, Any] | None:
        """The images/sec of a few jobs that the page does not have."""
        new = self._unsent()[:RATES_AT_ONCE]
        if not new:
            return None
        self._sent.update({name: self._jobs.rate_versions[name] for name in new})
        known = self._jobs.progress
        progress = {name: progress_fields(known[name]) for name in new if name in known}
        rates = {name: self._jobs.rates.get(name, []) for name in new}
        return {"kind": "rates", "rates": rates, "progress": progress}

    def _unsent(self) -> list[str]:
        """The jobs of which the page does not have the newest."""
        names = [job.id.name for job in self._jobs.jobs[:MOST_ROWS]]
        versions = self._jobs.rate_versions
        return [name for name in names if versions.get(name, 0) != self._sent.get(name, 0)]

    def answer_open(self, content: dict[str, Any]) -> dict[str, Any]:
        """Makes the live view of the job `content["name"]`."""
        id = self._jobs.job(str(content.get("name")))
        if id is None:
            return answer(content, "The job was deleted.", is_done=False)
        try:
            return {**answer(content, ""), "model": self._open_job(id)}
        except BatchAIError as error:
            return answer(content, error.message, is_done=False)
