"""The artifacts of a job, from the records of its run and the folders `outputs` of its nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from batchai_magics.backends.base import RECORDS, Backend
from batchai_magics.errors import NotFoundError
from batchai_magics.jobs.job_files import entries_below, one_level
from batchai_magics.models.job_execution import WORKDIR
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.records.artifacts import FOLDER, Artifact, artifacts_in

OUTPUTS = "outputs"  # the folder in a working directory whose files count as artifacts


def artifacts_of(backend: Backend, job: ResourceId) -> list[Artifact]:
    """What a run saved, in that order, then the files in `outputs` of its working directories."""
    return [*artifacts_in(RECORDS.of(backend).read(job, [FOLDER])), *_outputs(backend, job)]


def _outputs(backend: Backend, job: ResourceId) -> Iterator[Artifact]:
    with contextlib.suppress(NotFoundError):  # a job that has not started
        for node in one_level(backend, job, WORKDIR):
            if not node.is_directory:
                continue
            with contextlib.suppress(NotFoundError):
                yield from _outputs_of(backend, job, f"{node.path}/{OUTPUTS}")


def _outputs_of(backend: Backend, job: ResourceId, folder: str) -> Iterator[Artifact]:
    for file in entries_below(backend, job, WORKDIR, folder):
        if file.is_file:
            name = file.path.removeprefix(f"{folder}/")
            yield Artifact(name, file.path, file.size_bytes, saved=file.modified, directory_id=WORKDIR)
