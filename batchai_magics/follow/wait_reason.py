"""Why a job is queued: the reason of its backend, or the jobs and nodes that it waits for."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from batchai_magics.backends.base import Backend
from batchai_magics.errors import NotFoundError
from batchai_magics.follow.job_events import Event, NodesChanged, QueueChanged, queue_position
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import Cluster, JobResource
from batchai_magics.models.states import NodeState

MAX_NAMES = 3
MAX_JOBS = 20  # of a list, whose queue positions are read


class QueueState:
    """The state of a job's queue and cluster, according to its events."""

    def __init__(self) -> None:
        self._queue: QueueChanged | None = None
        self._cluster: NodeStateCounts | None = None

    def take(self, event: Event) -> None:
        """Updates the state by an event; most events are ignored."""
        if isinstance(event, QueueChanged):
            self._queue = event
        elif isinstance(event, NodesChanged):
            self._cluster = event.cluster

    def reason(self, job: JobResource) -> str:
        """Why the job is queued, without a period; empty if that is unknown, or it is not queued."""
        if not job.waits_for_nodes:
            return job.waiting
        return "; ".join(_reasons(job, self._queue, self._cluster))


def with_wait_reasons(backend: Backend, jobs: Iterable[JobResource]) -> list[JobResource]:
    """The jobs; the first `MAX_JOBS` queued ones have the reason why they wait."""
    shown, remaining = [], MAX_JOBS
    for job in jobs:
        is_read = job.waits_for_nodes and remaining > 0
        shown.append(with_wait_reason(backend, job) if is_read else job)
        remaining -= is_read
    return shown


def with_wait_reason(backend: Backend, job: JobResource) -> JobResource:
    """The job with the reason why it is queued; unchanged if it has one, or waits for no nodes."""
    if not job.waits_for_nodes:
        return job
    queue, counts = queue_position(backend, job), None
    with contextlib.suppress(NotFoundError):  # the cluster was deleted
        cluster = backend.show(ResourceId.parse(job.spec.cluster.id))
        counts = cluster.node_states if isinstance(cluster, Cluster) else None
    reason = "; ".join(_reasons(job, queue, counts))
    return job.with_waiting(reason) if reason else job


def _reasons(job: JobResource, queue: QueueChanged | None, cluster: NodeStateCounts | None) -> Iterator[str]:
    has_room = cluster is not None and cluster.of(NodeState.IDLE) >= job.spec.node_count
    if queue and queue.on_nodes and (queue.before or not has_room):
        yield f"{_names(queue.on_nodes)} {_verb(queue.on_nodes)} using its nodes"
    if queue and queue.before:
        yield f"{_jobs_before(queue.before)} ahead in the queue"
    if cluster and (preparing := cluster.of(NodeState.PREPARING)):
        yield f"{preparing} of its nodes {'is' if preparing == 1 else 'are'} being prepared"
    elif cluster and cluster.total < job.spec.node_count:
        yield f"it has {cluster.total or 'none'}"


def _names(names: Sequence[str]) -> str:
    """Joins names: `a`, `a and b`, `a, b and 3 more`."""
    shown = [*names[:MAX_NAMES], *([f"{len(names) - MAX_NAMES} more"] if len(names) > MAX_NAMES else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _jobs_before(names: Sequence[str]) -> str:
    """Names a few jobs, or counts many, with the counts of other experiments."""
    if len(names) <= MAX_NAMES:
        return f"{_names(names)} {_verb(names)}"
    others = Counter(experiment for experiment, sign, _ in (name.rpartition("/") for name in names) if sign)
    parts = [f"{count} of experiment {name}" for name, count in others.most_common(MAX_NAMES)]
    return f"{len(names):,} jobs{f' ({_names(parts)})' if parts else ''} are"


def _verb(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
