"""Default queue position: the jobs ahead of a queued one, computed from lists of jobs."""

from __future__ import annotations

from collections.abc import Sequence

from batchai_magics.backends.base.protocol import Backend
from batchai_magics.errors import NotFoundError
from batchai_magics.models.job_spec import JobPriority
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource, Resource
from batchai_magics.models.states import ExecutionState

MAX_EXPERIMENTS = 8  # the newest ones, besides its own, whose jobs are listed
_ORDER = (JobPriority.HIGH, JobPriority.NORMAL, JobPriority.LOW)


def default_jobs_ahead_of(backend: Backend, job: JobResource) -> Sequence[ResourceId]:
    """The jobs ahead of a queued one on its cluster, by priority and age, next job first.

    Only its own experiment and the newest eight others are searched.
    """
    listed = [other for experiment in _experiments(backend, job) for other in _jobs(backend, experiment)]
    before = [other for other in listed if isinstance(other, JobResource) and _is_before(other, job)]
    return [other.id for other in sorted(before, key=_queue_key)]


def _experiments(backend: Backend, job: JobResource) -> Sequence[ResourceId]:
    own = job.id.parent
    names = backend.names(own.parent, Kind.EXPERIMENT)
    others = [name for name in names if name.lower() != own.name.lower()][-MAX_EXPERIMENTS:]
    return [own, *(own.parent.child(Kind.EXPERIMENT, name) for name in others)]


def _jobs(backend: Backend, experiment: ResourceId) -> Sequence[Resource]:
    try:
        return backend.list(experiment, Kind.JOB)
    except NotFoundError:  # deleted meanwhile
        return ()


def _is_before(other: JobResource, job: JobResource) -> bool:
    is_competing = (
        other.state is ExecutionState.QUEUED and other.spec.cluster.id.lower() == job.spec.cluster.id.lower()
    )
    return is_competing and other.id != job.id and _queue_key(other) < _queue_key(job)


def _queue_key(job: JobResource) -> tuple[int, object]:
    return _ORDER.index(job.spec.scheduling_priority), job.provisioning.created
