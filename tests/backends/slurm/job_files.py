"""What is kept of a job on Slurm: its number there, its files, its first error."""

from __future__ import annotations

from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import JobResource
from tests.contract.place import Place
from tests.world import until


def number(place: Place, id: ResourceId, attempt: int = 1) -> str:
    """What Slurm calls a job."""
    return until(lambda: files(place, id).submission(attempt)).slurm_job


def files(place: Place, id: ResourceId):
    backend = place.backend
    assert isinstance(backend, SlurmBackend)
    return backend.runner.runs.observer.files(backend.context.repository.get(id).guid)


def first_error(job: JobResource):
    return job.execution.errors[0]
