"""The published 2018-05-01 API: what every endpoint of Batch AI implements."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from batchai_magics.backends.arm.connection import EndpointConnection, is_loopback, resource_path
from batchai_magics.backends.arm.published_storage import PublishedStorage
from batchai_magics.backends.arm.settings import NAME
from batchai_magics.backends.arm.share_clients import signed_file_client, translated_errors
from batchai_magics.backends.azure.arm_protocol import ArmRequest, check_inside
from batchai_magics.backends.base import Backend, Capabilities, Chunk, FileRef, JobNeeds, Pace, StatusSnapshot
from batchai_magics.errors import NotFoundError, StorageError
from batchai_magics.models.job_execution import OutputFile
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import JobResource

if TYPE_CHECKING:
    from batchai_magics.backends.base.facets import NodeCommands, Preemption, Records, SetupLogs, Telemetry

_SHORTEST_LINK_MIN, _LONGEST_LINK_MIN = 5, 600  # limits of the API
_LONGEST_PAGE = 1000  # of a list of files
_TOTAL = re.compile(r"/(\d+)\s*$")


class PublishedApi:
    """The verbs and facets that differ between endpoints, by the published API alone.

    What the API has no operation for is composed from the other verbs of `backend`.
    """

    containers: PublishedStorage | None = None
    node_commands: NodeCommands | None = None
    preemption: Preemption | None = None
    setup_logs: SetupLogs | None = None
    telemetry: Telemetry | None = None
    records: Records | None = None

    def __init__(self, backend: Backend, connection: EndpointConnection, storage: PublishedStorage) -> None:
        self._backend, self._connection = backend, connection
        self.storage: PublishedStorage | None = storage

    @property
    def capabilities(self) -> Capabilities:
        """The minimum: what any endpoint can do."""
        return Capabilities(name=NAME, pace=Pace(poll_interval_s=self._connection.endpoint.settings.look_s))

    def host_note(self, job: JobSpec) -> str:
        """Nothing: any other endpoint runs every image."""
        return ""

    def ensure(self, needs: JobNeeds) -> Sequence[JobResource]:
        """Creates the missing resources of a job, one request each."""
        return Backend.ensure(self._backend, needs)

    def names(self, parent: ResourceId, kind: Kind, prefix: str) -> Sequence[str]:
        """The names inside `parent` with a prefix; lists all resources for it."""
        return Backend.names(self._backend, parent, kind, prefix)

    def jobs_ahead_of(self, job: JobResource) -> Sequence[ResourceId]:
        """The jobs ahead of a queued one; lists jobs for it."""
        return Backend.jobs_ahead_of(self._backend, job)

    def status(
        self, ids: Collection[ResourceId], *, since: StatusSnapshot | None, wait_s: float
    ) -> StatusSnapshot:
        """The current state of jobs and clusters, one request for each parent; never waits."""
        return Backend.status(self._backend, ids)

    def read(self, file: FileRef, offset: int, limit: int) -> Chunk:
        """A chunk of an output file, in one ranged request to its download URL."""
        job = self._backend.show(file.job)  # first: a job that has ended by now writes no more
        is_complete = isinstance(job, JobResource) and job.state.is_final
        folder, _, name = file.path.strip("/").rpartition("/")
        same_name = [
            item for item in self._backend.files(file.job, file.directory_id, folder) if item.name == name
        ]
        listed = min(same_name, key=lambda item: item.is_directory, default=None)
        if listed is None:
            return Chunk(b"", offset, 0, is_complete)
        if not listed.is_file or not listed.download_url:
            raise NotFoundError(f"{listed.name} is {listed.kind.words}, not a file", code="FileNotFound")
        data, size = _range(self._connection, listed, offset, limit)
        return Chunk(data, offset, size, is_complete)

    def tail(
        self, job: ResourceId, positions: Mapping[str, int], limit: int, *, wait_s: float
    ) -> Mapping[str, Chunk]:
        """The new bytes of all logs of a job, one request each; never waits."""
        return Backend.tail(self._backend, job, positions, limit)


def output_listing(
    job: ResourceId, directory_id: str, path: str, expiry_min: int, limit: int | None = None
) -> ArmRequest:
    """The request that lists one level of an output directory; with `limit`, pages no longer than that."""
    check_inside(path)
    query = {
        "outputdirectoryid": directory_id,
        "directory": path.strip("/") or ".",
        "linkexpiryinminutes": str(min(max(expiry_min, _SHORTEST_LINK_MIN), _LONGEST_LINK_MIN)),
        "maxresults": str(min(_LONGEST_PAGE, max(1, limit or _LONGEST_PAGE))),
    }
    return ArmRequest("POST", resource_path(job, "listOutputFiles"), query)


def _range(connection: EndpointConnection, file: OutputFile, offset: int, limit: int) -> tuple[bytes, int]:
    """The bytes, and the file's current size by the response: the listed size may be out of date."""
    from azure.core.exceptions import HttpResponseError

    address = urlsplit(file.download_url or "")
    if address.scheme != "https" and not is_loopback(address.hostname or ""):
        name = unquote(address.path.rpartition("/")[2])
        raise StorageError(f"the address of {name} is plain http on another machine: it is not asked")
    headers: dict[str, str] = {}
    client = signed_file_client(connection.endpoint, address)
    with client, translated_errors():
        try:
            stream = client.download_file(
                offset=offset,
                length=max(1, limit),
                raw_response_hook=lambda response: headers.update(response.http_response.headers),
            )
            data = stream.readall()[:limit]
        except HttpResponseError as error:
            if error.status_code != 416:  # the offset is at or past the end
                raise
            return b"", min(file.size_bytes, offset)
    total = _TOTAL.search(headers.get("Content-Range", headers.get("content-range", "")))
    return data, int(total[1]) if total else offset + len(data)
