"""What jobs wrote, by the published API: listed, and read from the addresses that the list gives."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, unquote, urlsplit

from batchai_magics.backends.arm import paths
from batchai_magics.backends.arm.connection import Connection
from batchai_magics.backends.arm.endpoint import is_loopback
from batchai_magics.backends.arm.paths import Question
from batchai_magics.backends.arm.storage.clients import file_client, translated
from batchai_magics.backends.base import Backend, Chunk, FileRef
from batchai_magics.errors import NotFoundError, StorageError
from batchai_magics.models.execution import OutputFile
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.resources import JobResource

_SHORTEST_LINK_MIN, _LONGEST_LINK_MIN = 5, 600  # as the API has it
_LONGEST_PAGE = 1000  # of a list of files
_TOTAL = re.compile(r"/(\d+)\s*$")


def listing(
    job: ResourceId, directory_id: str, path: str, expiry_min: int, limit: int | None = None
) -> Question:
    """What asks for one level of an output directory, or for the first of it."""
    paths.check_inside(path)
    query = {
        "outputdirectoryid": directory_id,
        "directory": path.strip("/") or ".",
        "linkexpiryinminutes": str(min(max(expiry_min, _SHORTEST_LINK_MIN), _LONGEST_LINK_MIN)),
        "maxresults": str(min(_LONGEST_PAGE, max(1, limit or _LONGEST_PAGE))),
    }
    return Question("POST", paths.of(job, "listOutputFiles"), query)


def read(backend: Backend, connection: Connection, file: FileRef, *, offset: int, limit: int) -> Chunk:
    """A piece of a file, in one ranged request. Looked at before it: whether the job has ended."""
    job = backend.show(file.job)
    is_complete = isinstance(job, JobResource) and job.state.is_final
    listed = _listed(backend, file)
    if listed is None:
        return Chunk(b"", offset, 0, is_complete)
    if not listed.is_file or not listed.download_url:
        raise NotFoundError(f"{listed.name} is {listed.kind.words}, not a file", code="FileNotFound")
    data, size = _range(connection, listed, offset, limit)
    return Chunk(data, offset, size, is_complete)


def _listed(backend: Backend, file: FileRef) -> OutputFile | None:
    folder, _, name = file.path.strip("/").rpartition("/")
    files = backend.files(file.job, file.directory_id, folder)
    return next((item for item in files if item.name == name and not item.is_directory), None) or next(
        (item for item in files if item.name == name), None
    )


def _range(connection: Connection, file: OutputFile, offset: int, limit: int) -> tuple[bytes, int]:
    """The bytes, and how long the file is now. What was listed may be older: only the answer counts."""
    from azure.core.exceptions import HttpResponseError

    address = _checked(urlsplit(file.download_url or ""))
    seen: dict[str, str] = {}
    client = file_client(connection.endpoint, address)
    with client, translated():
        try:
            stream = client.download_file(
                offset=offset,
                length=max(1, limit),
                raw_response_hook=lambda response: seen.update(response.http_response.headers),
            )
            data = stream.readall()[:limit]
        except HttpResponseError as error:
            if error.status_code != 416:  # nothing is there from that offset on
                raise
            return b"", min(file.size_bytes, offset)
    total = _TOTAL.search(seen.get("Content-Range", seen.get("content-range", "")))
    return data, int(total[1]) if total else offset + len(data)


def _checked(address: SplitResult) -> SplitResult:
    """The address itself, if it may be asked in the open."""
    if address.scheme != "https" and not is_loopback(address.hostname or ""):
        name = unquote(address.path.rpartition("/")[2])
        raise StorageError(f"the address of {name} is plain http on another machine: it is not asked")
    return address
