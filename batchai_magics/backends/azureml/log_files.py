"""The directory `stdouterr` of a job: its common log, those of its processes, and the service's own files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from batchai_magics.backends.azureml.job_logs import WatchedLogs
from batchai_magics.backends.azureml.rank_logs import other_logs, rank_logs
from batchai_magics.errors import NotFoundError
from batchai_magics.models.job_execution import FileKind, OutputFile


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
