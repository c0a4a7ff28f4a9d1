"""What a queued job waits for: those that have its cluster's nodes, and those that get nodes before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from batchai_magics.backends.base import Backend
from batchai_magics.errors import NotFoundError
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.job import JobPriority
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState

LOOK_S = 2.0  # between two looks at a queue
_ORDER = (JobPriority.HIGH, JobPriority.NORMAL, JobPriority.LOW)


@dataclass(frozen=True)
class QueueSeen:
    """What a queued job waits for is new: the jobs `on_nodes` of its cluster, those `before` it in the queue.

    Jobs of its own experiment are told by their names, others with that of their experiment.
    """

    job: ResourceId
    on_nodes: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


class Queue:
    """The place of one job in its cluster's queue, looked at from time to time."""

    def __init__(self, backend: Backend, id: ResourceId, *, clock: Callable[[], float]) -> None:
        self._backend = backend
        self._id = id
        self._clock = clock
        self._due_at = 0.0
        self._last: QueueSeen | None = None

    def news(self, job: JobResource) -> list[QueueSeen]:
        """What is new, if the job waits and it is time to look; other experiments' jobs are not seen."""
        if job.state is not ExecutionState.QUEUED or self._clock() < self._due_at:
            return []
        self._due_at = self._clock() + max(LOOK_S, self._backend.capabilities.pace.look_s)
        seen = self._look(job)
        if seen == self._last:
            return []
        self._last = seen
        return [seen]

    def _look(self, job: JobResource) -> QueueSeen:
        try:
            nodes = self._backend.nodes(ResourceId.parse(job.spec.cluster.id))
            listed = self._backend.list(self._id.parent, Kind.JOB)
        except NotFoundError:  # the cluster or the experiment is gone
            return QueueSeen(self._id)
        before = [each for each in listed if isinstance(each, JobResource) and _is_before(each, job)]
        return QueueSeen(
            self._id,
            self._named(node.job for node in nodes if node.job),
            self._named(each.id for each in sorted(before, key=_turn)),
        )

    def _named(self, jobs: Iterable[ResourceId]) -> tuple[str, ...]:
        names = (
            job.name if job.parent == self._id.parent else f"{job.experiment}/{job.name}" for job in jobs
        )
        return tuple(dict.fromkeys(names))


def _is_before(other: JobResource, job: JobResource) -> bool:
    is_rival = (
        other.state is ExecutionState.QUEUED and other.spec.cluster.id.lower() == job.spec.cluster.id.lower()
    )
    return is_rival and other.id != job.id and _turn(other) < _turn(job)


def _turn(job: JobResource) -> tuple[int, object]:
    return _ORDER.index(job.spec.scheduling_priority), job.provisioning.created
