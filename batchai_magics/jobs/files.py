"""What a job wrote: the ids of its directories, one level of one of them, or all files of all of them."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from batchai_magics.backends.base import Backend
from batchai_magics.errors import NotFoundError, StorageError, visible
from batchai_magics.models.execution import STDOUTERR, WORKDIR, OutputFile
from batchai_magics.models.ids import ResourceId
from batchai_magics.models.job import JobSpec
from batchai_magics.models.resources import JobResource

MOST_ENTRIES = 10_000  # files and folders of a list of all


def directories_of(spec: JobSpec) -> list[str]:
    """The ids of a job's directories: its logs, its working directories, its output directories."""
    own = [item.id for item in spec.output_directories or ()]
    return [STDOUTERR, *([] if WORKDIR in map(str.lower, own) else [WORKDIR]), *own]


def one_level(
    backend: Backend, job: ResourceId, directory_id: str, path: str = "", *, limit: int | None = None
) -> list[OutputFile]:
    """One level of a directory, sorted by name, or the first of it."""
    listed = backend.files(job, directory_id, path, limit=limit)
    return [replace(file, directory_id=directory_id) for file in listed]


def all_files(backend: Backend, job: JobResource) -> list[OutputFile]:
    """All files of all directories, with a warning where there are too many, or a folder cannot be read.

    A directory that only the job's nodes know is left out. Links to folders are not followed.
    """
    found = list(islice(_entries(backend, job), MOST_ENTRIES + 1))
    if len(found) > MOST_ENTRIES:
        text = f"job {job.id.name} wrote more than {MOST_ENTRIES:,} files and folders: the first are listed"
        warnings.warn(f"{text}; job.files('workdir', 'FOLDER') lists a folder", stacklevel=3)
    return [entry for entry in found[:MOST_ENTRIES] if not entry.is_directory]


def entries_below(
    backend: Backend, job: ResourceId, directory_id: str, path: str = "", *, limit: int | None = None
) -> Iterator[OutputFile]:
    """What is in a directory at any depth, each folder followed by what is in it.

    Of each folder at most `limit` entries; a warning in place of one that cannot be read.
    """
    levels = [iter(one_level(backend, job, directory_id, path, limit=limit))]
    while levels:
        entry = next(levels[-1], None)
        if entry is None:
            levels.pop()
            continue
        yield entry
        if entry.is_directory and not entry.is_link:
            levels.append(iter(_readable(backend, job, entry, limit)))


def _entries(backend: Backend, job: JobResource) -> Iterator[OutputFile]:
    for directory_id in directories_of(job.spec):
        with contextlib.suppress(NotFoundError):
            yield from entries_below(backend, job.id, directory_id, limit=MOST_ENTRIES + 1)


def _readable(backend: Backend, job: ResourceId, folder: OutputFile, limit: int | None) -> list[OutputFile]:
    try:
        return one_level(backend, job, folder.directory_id, folder.path, limit=limit)
    except StorageError as error:
        warnings.warn(f"job {job.name}: {visible(error.message)}", stacklevel=6)
        return []
