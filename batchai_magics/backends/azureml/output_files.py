"""The output directories of jobs, in the datastores where the service keeps them; `stdouterr` among them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from batchai_magics.backends.azureml.datastores import BlobEntry, BlobFolder, Datastores
from batchai_magics.backends.azureml.job_logs import WatchedLogs
from batchai_magics.backends.azureml.job_parsing import ServiceJob
from batchai_magics.backends.azureml.node.node_setup import SHARE_OUTPUT
from batchai_magics.backends.azureml.rank_logs import other_logs, rank_logs
from batchai_magics.backends.base import Chunk
from batchai_magics.backends.service import api_errors
from batchai_magics.errors import NotFoundError
from batchai_magics.models.job_execution import ARTIFACTS, RUN_FOLDERS, FileKind, OutputFile
from batchai_magics.models.job_spec import OutputDirectory

_RUN_STORE = "azureml://datastores/workspaceartifactstore/paths/ExperimentRun/dcid."
_MOUNTED = re.compile(r"\$(\{)?AZ_BATCHAI_(?:JOB_)?MOUNT_ROOT(?(1)\})/(?P<path>.*)")
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
            own = [item.path_prefix for item in job.spec.output_directories or () if item.id == directory_id]
            place = uri or next(iter(own), f"$AZ_BATCHAI_{directory_id}")
            raise api_errors.output_directory_not_here(directory_id, place)
        return folder

    def _uri(self, job: ServiceJob, directory_id: str) -> str:
        outputs: Mapping[str, Any] = job.properties.get("outputs") or {}
        if directory_id == ARTIFACTS:
            return f"{_RUN_STORE}{job.run}/outputs/batchai/artifacts"
        if directory_id in RUN_FOLDERS:
            return ""
        own = {item.id: item for item in job.spec.output_directories or ()}
        if directory_id in own:
            return output_uri(job, own[directory_id])
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


def output_uri(job: ServiceJob, output: OutputDirectory) -> str:
    """The address of an output directory of one of our jobs; empty where it is on no mount."""
    match = _MOUNTED.fullmatch(output.path_prefix.rstrip("/"))
    path = match["path"].strip("/") if match else ".."
    if ".." in path.split("/"):
        return ""
    outputs: Mapping[str, Any] = job.properties.get("outputs") or {}
    mounts: Mapping[str, str] = job.bundle.get("mounts") or {}
    for mount, name in (*mounts.items(), (job.bundle.get("share"), SHARE_OUTPUT)):
        if mount and name in outputs and f"{path}/".startswith(f"{mount}/"):
            uri, rest = str(outputs[name].get("uri")).rstrip("/"), path[len(mount) :].strip("/")
            prefix = f"{uri}/{rest}".rstrip("/")
            if name != SHARE_OUTPUT:
                return output.path_below(prefix, job.output_path_segment)
            return output.path_below(prefix, "") if output.is_own else ""
    return ""


def list_log_files(watched: WatchedLogs, path: str, limit: int | None) -> Sequence[OutputFile]:
    """One level of the directory, sorted by name; each file costs a request for its size.

    Raises:
        NotFoundError: There is no such folder.
    """
    names = list(watched.details().log_files)
    folder = path.strip("/")
    level = sorted(_level(names, folder), key=lambda file: file.path)
    if folder and not level:
        raise NotFoundError(f"there is no folder {folder}", code="FileNotFound")
    return [_measured(watched, file) for file in level[:limit]]


def _level(names: Sequence[str], folder: str) -> Iterator[OutputFile]:
    if not folder:
        logs = [*rank_logs(names), *other_logs(names)]
        yield from map(OutputFile.regular, {path for log in logs for path in (log.path, log.tailed_path)})
    yield from _children(names, f"{folder}/" if folder else "")


def _children(names: Iterable[str], prefix: str) -> Iterator[OutputFile]:
    """The files and folders directly below a prefix."""
    folders = set()
    for name in names:
        first, _, rest = name.removeprefix(prefix).partition("/")
        if not name.startswith(prefix) or not first:
            continue
        if not rest:
            yield OutputFile.regular(name)
        elif first not in folders:
            folders.add(first)
            yield OutputFile(f"{prefix}{first}", FileKind.DIRECTORY, 0)


def _measured(watched: WatchedLogs, file: OutputFile) -> OutputFile:
    """A file with its size, time and address; that of a composed log is none of its parts'."""
    if not file.is_file:
        return file
    names = watched.names_of(file.path)
    blobs = [blob for name in names if (blob := watched.blob(name))]
    urls = [watched.details().log_files[name] for name in names]
    return OutputFile(
        file.path,
        FileKind.FILE,
        sum(blob.size for blob in blobs),
        max((blob.modified for blob in blobs if blob.modified), default=None),
        urls[0] if len(urls) == 1 else None,
    )
