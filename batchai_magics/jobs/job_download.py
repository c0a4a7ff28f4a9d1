"""Copies a job's output files to this machine: one of them, a folder, a directory, or all."""

from __future__ import annotations

import contextlib
from pathlib import Path

from batchai_magics.backends.base import Backend, FileRef
from batchai_magics.errors import NotFoundError, StorageError, visible
from batchai_magics.jobs.job_files import all_files, entries_below, one_level, save
from batchai_magics.models.job_execution import OutputFile
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import JobResource


def download_all(backend: Backend, job: JobResource, to: Path, *, partial: bool) -> Path:
    """Copies all files to a folder named after the job, each below its directory's id; returns the folder."""
    folder = to / job.id.name
    for file in all_files(backend, job):
        _save(backend, job.id, file, folder / file.directory_id, partial=partial)
    return folder


def download_directory(
    backend: Backend, job: ResourceId, directory_id: str, to: Path, *, partial: bool
) -> Path:
    """Copies the files of a directory to a folder of its name; returns the folder."""
    return _download_folder(backend, job, directory_id, "", to / directory_id, partial=partial)


def download(backend: Backend, file: FileRef, to: Path, *, partial: bool) -> Path:
    """Copies a file, or the files of a folder, below `to`; returns the path of the copy.

    Raises:
        NotFoundError: There is no such file.
    """
    place_inside(to, file.path)  # before a request: a path that leaves the folder is no file of the job
    entry = OutputFile.regular(file.path, directory_id=file.directory_id)
    if not _size_of(backend, file):
        entry = _entry_of(backend, file)
    if entry.is_directory:
        return _download_folder(backend, file.job, file.directory_id, file.path, to, partial=partial)
    return _save(backend, file.job, entry, to, partial=partial)


def _download_folder(
    backend: Backend, job: ResourceId, directory_id: str, path: str, to: Path, *, partial: bool
) -> Path:
    """Copies the files of a folder below `to`, with their paths; an empty path is the whole directory."""
    for entry in entries_below(backend, job, directory_id, path):
        if entry.is_file:
            _save(backend, job, entry, to, partial=partial)
    return place_inside(to, path)


def _save(backend: Backend, job: ResourceId, file: OutputFile, to: Path, *, partial: bool) -> Path:
    place = place_inside(to, file.path)
    save(backend, FileRef(job, file.path, file.directory_id), place, partial=partial)
    return place


def _size_of(backend: Backend, file: FileRef) -> int:
    """The size of a file; 0 for a folder."""
    with contextlib.suppress(NotFoundError):
        return backend.read(file, 0, 1).size
    return 0


def _entry_of(backend: Backend, file: FileRef) -> OutputFile:
    """The entry of a file or folder in its folder."""
    parent = file.path.rpartition("/")[0]
    entries = {entry.path: entry for entry in one_level(backend, file.job, file.directory_id, parent)}
    if file.path not in entries:
        names = [visible(entry.name) for entry in entries.values()]
        hint = f"There are: {', '.join(names)}." if names else "The directory is empty."
        text = f"job {file.job.name} has no file {file.path!r}"
        raise NotFoundError(text, code="FileNotFound", hint=hint)
    return entries[file.path]


def place_inside(folder: Path, path: str) -> Path:
    """The absolute path of a file below a folder; raises StorageError for one that is not."""
    folder = folder.expanduser().resolve()
    place = (folder / path).resolve()
    if not place.is_relative_to(folder):
        hint = "Name a file of the job's output directory."
        raise StorageError(f"{path!r} is outside {folder}", hint=hint)
    return place
