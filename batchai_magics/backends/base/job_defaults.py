"""Default implementations: `ensure`, which creates what a new job needs, and the position in the queue."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from batchai_magics.backends.base.facets import STORAGE
from batchai_magics.errors import ConflictError, NotFoundError
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState

if TYPE_CHECKING:
    from batchai_magics.backends.base.protocol import Backend
    from batchai_magics.backends.base.resource_requests import JobNeeds, Spec
    from batchai_magics.backends.base.storage import Storage
    from batchai_magics.models.resources import Resource

MAX_RUNS = 50  # runs of a name that a new job is compared with
_RUN = re.compile(r"-(\d+)$")


def default_ensure(backend: Backend, needs: JobNeeds) -> Sequence[JobResource]:
    """`Backend.ensure` built on the other methods, with one request for each part.

    Returns:
        The latest runs of the job's name, oldest first.

    Raises:
        CapabilityError: Files are to be stored, and the backend has no shares.
        ConflictError: A missing resource exceeds a quota.
    """
    backend.check_needs(needs)
    for id, spec in missing(backend, needs):
        with ignoring_existing(backend, id):
            backend.create(id, spec)
    if needs.share:
        storage: Storage = STORAGE.of(backend)
        storage.make(needs.share)
        if needs.files:
            storage.upload(needs.share, needs.files)
    return runs(backend, needs.job)


def missing(backend: Backend, needs: JobNeeds) -> list[tuple[ResourceId, Spec]]:
    """The needed resources that do not exist; parents of an existing resource are not looked up."""
    existing: list[str] = []
    for id, _ in reversed(needs.resources):
        if not any(key.startswith(f"{id.key}/") for key in existing) and _exists(backend, id):
            existing.append(id.key)
    return [
        (id, spec)
        for id, spec in needs.resources
        if not any(f"{key}/".startswith(f"{id.key}/") for key in existing)
    ]


@contextlib.contextmanager
def ignoring_existing(backend: Backend, id: ResourceId) -> Iterator[None]:
    """Suppresses the ConflictError of a creation if another process has created the resource."""
    try:
        yield
    except ConflictError:
        if not _exists(backend, id):
            raise


def _exists(backend: Backend, id: ResourceId) -> bool:
    try:
        backend.show(id)
    except NotFoundError:
        return False
    return True


def runs(backend: Backend, job: ResourceId) -> list[JobResource]:
    """The latest 50 runs of a job's name, oldest first."""
    names = run_names(backend.names(job.parent, Kind.JOB, job.name), job.name)[-MAX_RUNS:]
    ids = [job.parent.child(Kind.JOB, name) for name in names]
    snapshot = backend.status(ids)
    return [found for id in ids if isinstance(found := snapshot.of(id), JobResource)]


def run_names(names: Sequence[str], name: str) -> list[str]:
    """The runs of a named job among these names, oldest first: `resnet`, `resnet-2` and so on."""
    wanted = name.lower()
    runs = [each for each in names if wanted in (each.lower(), first_run(each).lower())]
    return sorted(runs, key=lambda run: run_number(run, name))


def first_run(name: str) -> str:
    """A run's name without its number: `resnet` for `resnet-2`."""
    return _RUN.sub("", name)


def run_number(run: str, name: str) -> int:
    """The number of a run of `name`, from 1: `resnet-50` is run 1 of itself, and run 50 of `resnet`."""
    return 1 if run.lower() == name.lower() else int(run[len(name) + 1 :])


MAX_EXPERIMENTS = 8  # the newest ones, besides its own, whose jobs are listed


def default_jobs_ahead_of(backend: Backend, job: JobResource) -> Sequence[ResourceId]:
    """The jobs ahead of a queued one on its cluster, by priority and age, next job first.

    Only its own experiment and the newest eight others are searched.
    """
    from batchai_magics.models.job_spec import JobPriority  # who names runs does without the models

    own = job.id.parent
    names = backend.names(own.parent, Kind.EXPERIMENT)
    others = [name for name in names if name.lower() != own.name.lower()][-MAX_EXPERIMENTS:]
    listed: list[Resource] = []
    for experiment in (own, *(own.parent.child(Kind.EXPERIMENT, name) for name in others)):
        with contextlib.suppress(NotFoundError):  # deleted meanwhile
            listed += backend.list(experiment, Kind.JOB)
    queue = [other for other in listed if isinstance(other, JobResource)]
    queue = [other for other in queue if other.state is ExecutionState.QUEUED and other.id != job.id]
    cluster = job.spec.cluster.id.lower()
    queue = [other for other in queue if other.spec.cluster.id.lower() == cluster]
    order = (JobPriority.HIGH, JobPriority.NORMAL, JobPriority.LOW)

    def place(queued: JobResource) -> tuple[int, object]:
        return order.index(queued.spec.scheduling_priority), queued.provisioning.created

    return [other.id for other in sorted(queue, key=place) if place(other) < place(job)]
