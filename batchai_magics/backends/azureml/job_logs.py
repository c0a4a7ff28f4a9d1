"""The logs and output files of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from batchai_magics.backends.azureml.connection import Connection
from batchai_magics.backends.azureml.jobs import Jobs
from batchai_magics.backends.base.file_chunks import Chunk, FileRef
from batchai_magics.errors import CapabilityError
from batchai_magics.models.job_execution import OutputFile
from batchai_magics.models.resource_ids import ResourceId


class JobLogs:
    """The logs and output files of a workspace's jobs."""

    def __init__(self, connection: Connection, jobs: Jobs) -> None:
        self._connection, self._jobs = connection, jobs

    def files(
        self, job: ResourceId, directory_id: str, path: str, *, expiry_min: int, limit: int | None
    ) -> Sequence[OutputFile]:
        """One level of a job's output directory, sorted by name."""
        raise _missing()

    def read(self, file: FileRef, offset: int, limit: int) -> Chunk:
        """At most `limit` bytes of a file from `offset`."""
        raise _missing()

    def tail(self, job: ResourceId, positions: Mapping[str, int], limit: int) -> Mapping[str, Chunk]:
        """The new bytes of all logs of a job."""
        raise _missing()


def _missing() -> CapabilityError:
    return CapabilityError("files are not supported by the azureml backend yet", code="NotSupported")
