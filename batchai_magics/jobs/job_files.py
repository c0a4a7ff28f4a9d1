"""The output files of a job: lists one level or all of them; downloads one, a folder, or all."""

from __future__ import annotations

import contextlib
import uuid
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from batchai_magics.backends.base import Backend, FileRef
from batchai_magics.errors import NotFoundError, StorageError, visible
from batchai_magics.jobs.job_logs import chunks, consume, retry_if_changed
from batchai_magics.models.job_execution import RUN_FOLDERS, STDOUTERR, OutputFile
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import JobResource

MAX_ENTRIES = 10_000  # files and folders in a list of all


def directories_of(spec: JobSpec) -> list[str]:
    """The ids of a job's directories: `stdouterr`, those of every run, then its output directories."""
    own = [item.id for item in spec.output_directories or ()]
    return [STDOUTERR, *(name for name in RUN_FOLDERS if name not in map(str.lower, own)), *own]


def one_level(
    backend: Backend, job: ResourceId, directory_id: str, path: str = "", *, limit: int | None = None
) -> list[OutputFile]:
    """One level of a directory, sorted by name; at most `limit` entries, or all with None.

    Raises:
        NotFoundError: There is no such job, directory or folder.
        StorageError: The path leaves the directory.
    """
    listed = backend.files(job, directory_id, path, limit=limit)
    return [replace(file, directory_id=directory_id) for file in listed]


def all_files(backend: Backend, job: JobResource) -> list[OutputFile]:
    """The files of all directories, without folders; at most 10,000 entries are read.

    Warns if there are more, or if a folder cannot be read. Leaves out directories on the nodes' own disks,
    and does not follow links to folders.
    """
    found = list(islice(_entries(backend, job), MAX_ENTRIES + 1))
    if len(found) > MAX_ENTRIES:
        text = f"job {job.id.name} wrote more than {MAX_ENTRIES:,} files and folders: the first are listed"
        warnings.warn(f"{text}; job.files('workdir', 'FOLDER') lists a folder", stacklevel=3)
    return [entry for entry in found[:MAX_ENTRIES] if not entry.is_directory]


def entries_below(
    backend: Backend, job: ResourceId, directory_id: str, path: str = "", *, limit: int | None = None
) -> Iterator[OutputFile]:
    """Walks a directory recursively, each folder followed by its entries.

    Warns about a folder that cannot be read.

    Args:
        backend: The backend of the job.
        job: The job.
        directory_id: The id of the directory.
        path: The folder to start at; empty for the directory itself.
        limit: The maximum number of entries per folder; None for all.

    Raises:
        NotFoundError: There is no such job, directory or folder.
    """
    levels = [iter(one_level(backend, job, directory_id, path, limit=limit))]
    while levels:
        entry = next(levels[-1], None)
        if entry is None:
            levels.pop()
            continue
        yield entry
        if entry.is_directory and not entry.is_link:
            levels.append(iter(_list_or_warn(backend, job, entry, limit)))


def _entries(backend: Backend, job: JobResource) -> Iterator[OutputFile]:
    for directory_id in directories_of(job.spec):
        with contextlib.suppress(NotFoundError):
            yield from entries_below(backend, job.id, directory_id, limit=MAX_ENTRIES + 1)


def _list_or_warn(
    backend: Backend, job: ResourceId, folder: OutputFile, limit: int | None
) -> list[OutputFile]:
    try:
        return one_level(backend, job, folder.directory_id, folder.path, limit=limit)
    except StorageError as error:
        warnings.warn(f"job {job.name}: {visible(error.message)}", stacklevel=6)
        return []


def save(backend: Backend, file: FileRef, place: Path, *, partial: bool = False) -> None:
    """Downloads a job's file to `place` atomically, through a uniquely named temporary file.

    Raises:
        FileChangedError: The file was replaced each time while it was read.
        StorageError: The copy cannot be written (code FileUnwritable), or a finished log is incomplete (code
            LogIncomplete) and not `partial`.
    """
    part = place.with_name(f".{place.name[:40]}.{uuid.uuid4().hex}.part")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("xb") as target:
                retry_if_changed(lambda: _copy(backend, file, target, partial=partial))
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{place} cannot be written: {error.strerror}", code="FileUnwritable") from error


def _copy(backend: Backend, file: FileRef, target: BinaryIO, *, partial: bool) -> None:
    target.seek(0)
    target.truncate()
    fault = consume(chunks(backend, file), lambda chunk: target.write(chunk.data))
    if fault and not partial:
        hint = "partial=True takes what is there."
        raise StorageError(f"{file.path} is not complete: {fault}", code="LogIncomplete", hint=hint)


def download_all(backend: Backend, job: JobResource, to: Path, *, partial: bool) -> Path:
    """Copies all files to a folder named after the job, each below its directory's id; returns the folder."""
    folder = to / job.id.name
    for file in all_files(backend, job):
        _save(backend, job.id, file, folder / file.directory_id, partial=partial)
    return folder


def download(backend: Backend, file: FileRef, to: Path, *, partial: bool) -> Path:
    """Copies a file, or the files of a folder, below `to`; returns the path of the copy.

    An empty path is the whole directory, which is copied to a folder of its name.

    Raises:
        NotFoundError: There is no such file.
    """
    if not file.path:
        folder = to / file.directory_id
        return _download_folder(backend, file.job, file.directory_id, "", folder, partial=partial)
    place_inside(to, file.path)  # before a request: a path that leaves the folder names no file of the job
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
        hint = f"Available: {', '.join(names)}." if names else "The directory is empty."
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
