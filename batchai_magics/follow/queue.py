"""What a queued job waits for: those that have its cluster's nodes, and those that get nodes before it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from batchai_magics.backends.base import Backend
from batchai_magics.errors import NotFoundError
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState

LOOK_S = 2.0  # between two looks at a queue
COST_SHARE = 0.05  # of a core may go into looking
LONGEST_PAUSE_S = 10.0  # that the cost of a look may ask for


@dataclass(frozen=True)
class QueueSeen:
    """What a queued job waits for is new: the jobs `on_nodes` of its cluster, those `before` it in the queue.

    Jobs of its own experiment are told by their names, others with their experiment's: `theirs/long`.
    """

    job: ResourceId
    on_nodes: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


class Queue:
    """The place of one job in its cluster's queue, looked at from time to time.

    `spent` is the processor time of the thread, in seconds: on a machine that is busy with something else
    nothing comes later for it.
    """

    def __init__(
        self,
        backend: Backend,
        id: ResourceId,
        *,
        clock: Callable[[], float],
        spent: Callable[[], float] = time.thread_time,
    ) -> None:
        self._backend = backend
        self._id = id
        self._clock, self._spent = clock, spent
        self._due_at = 0.0
        self._last: QueueSeen | None = None

    def news(self, job: JobResource) -> list[QueueSeen]:
        """What is new, if the job waits, its place does not say for what, and it is time to look."""
        if job.state is not ExecutionState.QUEUED or job.waiting or self._clock() < self._due_at:
            return []
        began = self._spent()
        seen = self._look(job)
        cost_s = min(LONGEST_PAUSE_S, (self._spent() - began) / COST_SHARE)
        self._due_at = self._clock() + max(LOOK_S, self._backend.capabilities.pace.look_s, cost_s)
        if seen == self._last:
            return []
        self._last = seen
        return [seen]

    def _look(self, job: JobResource) -> QueueSeen:
        try:
            nodes = self._backend.nodes(ResourceId.parse(job.spec.cluster.id))
            before = self._backend.ahead(job)
        except NotFoundError:  # the cluster or the workspace is gone
            return QueueSeen(self._id)
        return QueueSeen(
            self._id,
            self._named(node.job for node in nodes if node.job),
            self._named(before),
        )

    def _named(self, jobs: Iterable[ResourceId]) -> tuple[str, ...]:
        names = (
            job.name if job.parent == self._id.parent else f"{job.experiment}/{job.name}" for job in jobs
        )
        return tuple(dict.fromkeys(names))
