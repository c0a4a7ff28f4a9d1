"""The output directories of jobs, in the datastores where the service keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from batchai_magics.backends.azureml.datastores import BlobEntry, BlobFolder, Datastores
from batchai_magics.backends.azureml.job_parsing import ServiceJob
from batchai_magics.backends.base import Chunk
from batchai_magics.backends.service import api_errors
from batchai_magics.errors import NotFoundError
from batchai_magics.models.job_execution import ARTIFACTS, RUN_FOLDERS, FileKind, OutputFile

_RUN_STORE = "azureml://datastores/workspaceartifactstore/paths/ExperimentRun/dcid."
_OWN_OUTPUT = "batchai"  # the output that has all output directories of our jobs
_DEFAULT_OUTPUT = "default"  # the service's own: all files of a run


class OutputFiles:
    """Files that jobs wrote into their output directories."""

    def __init__(self, datastores: Datastores) -> None:
        self._datastores = datastores

    def list(self, job: ServiceJob, directory_id: str, path: str, limit: int | None) -> Sequence[OutputFile]:
        """One level of an output directory, sorted by name.

        Raises:
            NotFoundError: There is no such output directory or folder.
        """
        folder = self._folder(job, directory_id)
        found = sorted(self._datastores.entries(folder, path), key=lambda entry: entry.path)
        if not found and path.strip("/"):
            raise NotFoundError(f"there is no folder {path.strip('/')}", code="FileNotFound")
        return [self._file(folder, entry) for entry in islice(found, limit)]

    def read(self, job: ServiceJob, directory_id: str, path: str, offset: int, limit: int) -> Chunk:
        """A piece of a file; an empty chunk if it does not exist.

        Raises:
            NotFoundError: There is no such output directory, or the path is a folder.
        """
        folder = self._folder(job, directory_id)
        blob = self._datastores.read(folder, path, offset, limit)
        if blob is not None:
            return Chunk(blob.data[:limit], offset, blob.size, job.state.is_final, generation=blob.etag)
        if next(iter(self._datastores.entries(folder, path)), None):
            raise NotFoundError(f"{path.rpartition('/')[2]} is a folder, not a file", code="FileNotFound")
        return Chunk(b"", offset, 0, job.state.is_final)

    def _folder(self, job: ServiceJob, directory_id: str) -> BlobFolder:
        """Where the service keeps an output directory.

        Raises:
            NotFoundError: The job has no such directory, or it is only on its nodes.
        """
        uri = self._uri(job, directory_id)
        folder = self._datastores.folder(uri) if uri else None
        if folder is None:
            raise api_errors.output_directory_not_here(directory_id, uri or f"$AZ_BATCHAI_{directory_id}")
        return folder

    def _uri(self, job: ServiceJob, directory_id: str) -> str:
        outputs: Mapping[str, Any] = job.properties.get("outputs") or {}
        if directory_id == ARTIFACTS:
            return f"{_RUN_STORE}{job.run}/outputs/batchai/artifacts"
        if directory_id in RUN_FOLDERS:
            return ""
        own = {item.id: item.path_suffix or "" for item in job.spec.output_directories or ()}
        if directory_id in own and _OWN_OUTPUT in outputs:
            return f"{str(outputs[_OWN_OUTPUT].get('uri')).rstrip('/')}/outputs/{own[directory_id]}"
        if directory_id == _DEFAULT_OUTPUT:
            return f"{_RUN_STORE}{job.run}"
        if directory_id in outputs:
            return str(outputs[directory_id].get("uri") or "")
        raise api_errors.output_directory_not_found(directory_id, [*own, *outputs])

    def _file(self, folder: BlobFolder, entry: BlobEntry) -> OutputFile:
        if entry.is_folder:
            return OutputFile(entry.path, FileKind.DIRECTORY, 0)
        url = self._datastores.address(folder, entry.path)
        return OutputFile(entry.path, FileKind.FILE, entry.size_bytes, entry.modified, url)
