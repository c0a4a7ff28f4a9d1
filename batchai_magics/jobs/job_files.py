"""The output files of a job: lists a level or all of them, results first; downloads one, a folder, or all."""

from __future__ import annotations

import contextlib
import enum
import re
import uuid
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from batchai_magics.backends.base import RECORDS, Backend, FileRef, fault_text
from batchai_magics.cell.cell_options import RUNNERS
from batchai_magics.cell.cell_uploads import DOWNLOAD
from batchai_magics.cell.run_cell import VARIABLES
from batchai_magics.errors import NotFoundError, StorageError, did_you_mean, visible
from batchai_magics.jobs.job_logs import chunks, consume, retry_if_changed
from batchai_magics.models.job_execution import (
    ARTIFACTS,
    CHECKPOINTS,
    ERR,
    OUT,
    STDOUTERR,
    WORKDIR,
    OutputFile,
)
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.records.artifacts import FOLDER, Artifact, artifacts_in
from batchai_magics.records.record_files import SUBMISSION
from batchai_magics.records.submission import Submission, upload_name

MAX_HINT_FILES = 10
MAX_ENTRIES = 10_000  # files and folders in a list of all
OUTPUTS = "outputs"  # the folder in a working directory whose files count as artifacts
_INTERNAL = re.compile(rf"{STDOUTERR}/(stdout-job_prep|stderr-job_prep|execution\b)|.*/__pycache__(/|$)")


class Origin(enum.IntEnum):
    """Where a file of a job comes from, in the order of interest."""

    ARTIFACT = 0  # saved under a name, or in the folder `outputs`
    WRITTEN = 1  # by the script, to its working or output directories
    CHECKPOINT = 2
    SENT = 3  # with the job, to its working directory
    LOG = 4
    INTERNAL = 5  # logs of preparation and execution, caches of Python


def origin_of(file: OutputFile, sent: Collection[str]) -> Origin:
    """Where a file or folder comes from; `sent` are the paths of `sent_files`."""
    if _INTERNAL.match(f"{file.directory_id}/{file.path}"):
        return Origin.INTERNAL
    if file.directory_id == WORKDIR:
        path = file.path.partition("/")[2]  # in the folder of its node
        if path.partition("/")[0] == OUTPUTS:
            return Origin.ARTIFACT
        return Origin.SENT if path in sent else Origin.WRITTEN
    known = {ARTIFACTS: Origin.ARTIFACT, CHECKPOINTS: Origin.CHECKPOINT, STDOUTERR: Origin.LOG}
    return known.get(file.directory_id, Origin.WRITTEN)


def in_order(files: Iterable[OutputFile], sent: Collection[str]) -> list[OutputFile]:
    """The files, the most interesting origin first; each origin's in their order."""
    return sorted(files, key=lambda file: origin_of(file, sent))


def sent_files(backend: Backend, job: ResourceId) -> frozenset[str]:
    """The paths of the files that were sent with a job, in its working directory; empty where unknown."""
    try:
        files = backend.records.read(job, (SUBMISSION,)) if backend.records else {}
        record = Submission.from_text(files[SUBMISSION])
    except (KeyError, ValueError, NotFoundError):
        return frozenset()
    return frozenset({record.code.name, *RUNNERS, VARIABLES, *map(upload_name, record.uploads)})


def directories_of(spec: JobSpec) -> list[str]:
    """The ids of a job's directories: artifacts, what its processes wrote, checkpoints, logs."""
    output_ids = [item.id for item in spec.output_directories or ()]
    names = (ARTIFACTS, *output_ids, WORKDIR, CHECKPOINTS, STDOUTERR)
    lowered = {name.lower() for name in output_ids}
    return [name for name in names if name in output_ids or name not in lowered]


def check_log_exists(backend: Backend, job: ResourceId, path: str) -> None:
    """Raises NotFoundError, whose hint lists the others, unless a job has this file among its logs."""
    if path in (OUT, ERR):
        return
    files: list[OutputFile] = []
    with contextlib.suppress(NotFoundError):  # it has not started
        files = one_level(backend, job, STDOUTERR, path.rpartition("/")[0])
    names = [file.path for file in files if file.is_file]
    if path in names:
        return
    hint = f"Its files: {', '.join(map(visible, names))}." if names else "It has not written any files yet."
    raise NotFoundError(f"job {job.name} has no file {visible(path)}", code="FileNotFound", hint=hint)


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


def all_files(backend: Backend, job: JobResource, *, limit: int = MAX_ENTRIES) -> list[OutputFile]:
    """The files of all directories, without folders, results first; at most `limit` entries are read.

    Warns if there are more, or if a folder cannot be read. Leaves out directories on the nodes' own disks,
    and does not follow links to folders.
    """
    entries = list(islice(_entries(backend, job, limit + 1), limit + 1))
    if len(entries) > limit:
        text = f"job {job.id.name} wrote more than {limit:,} files and folders: the first are listed"
        warnings.warn(f"{text}; job.files('workdir', 'FOLDER') lists a folder", stacklevel=3)
    files = [entry for entry in entries[:limit] if not entry.is_directory]
    return in_order(files, sent_files(backend, job.id)) if files else []


def named_files(files: Sequence[OutputFile], path: str) -> list[tuple[OutputFile, str]]:
    """The files that a path names, each with its own path from that name on.

    Args:
        files: The files of a job.
        path: A file or folder as listed, or the end of its path: `model.pt`, `figures`. Of several, the one
            with the fewest folders above it.

    Raises:
        NotFoundError: There is none, or there are several.
    """
    part = path.strip("/")
    paths = listed_paths_of(files)
    for names in (paths, [f"{file.directory_id}/{file.path}" for file in files]):
        matching = [pair for pair in zip(files, names, strict=True) if f"/{part}/" in f"/{pair[1]}/"]
        whole = [pair for pair in matching if f"{pair[1]}/".startswith(f"{part}/")]
        least = min((_depth(name, part) for _, name in matching), default=0)
        chosen = whole or [pair for pair in matching if _depth(pair[1], part) == least]
        if len({_path_above(name, part) for _, name in chosen}) == 1:
            base = part.rpartition("/")[2]
            below = [(file, f"/{name}/".partition(f"/{part}/")[2].rstrip("/")) for file, name in chosen]
            return [(file, f"{base}/{rest}" if rest else base) for file, rest in below]
    raise _not_named(files, list(map(visible, paths)), path)


def _not_named(files: Sequence[OutputFile], listed_paths: Sequence[str], path: str) -> NotFoundError:
    """The error for a path that names none of the files with these listed paths, or several."""
    part = path.strip("/")
    several = [listed_path for listed_path in listed_paths if f"/{part}/" in f"/{listed_path}/"]
    text = f"several files are called {visible(path)}" if several else f"there is no file {visible(path)}"
    near = did_you_mean(part, (*listed_paths, *(visible(file.name) for file in files)))
    available = f"Available: {', '.join((several or listed_paths)[:MAX_HINT_FILES])}."
    hint = near if near and not several else available
    return NotFoundError(text, code="FileNotFound", hint=hint)


def _path_above(name: str, part: str) -> str:
    """The folders before a part of a path: for `a/b/c` and `b`, `/a`."""
    return f"/{name}/".partition(f"/{part}/")[0]


def _depth(name: str, part: str) -> int:
    return _path_above(name, part).count("/")


def entries_below(
    backend: Backend, job: ResourceId, directory_id: str, path: str = "", *, limit: int | None = None
) -> Iterator[OutputFile]:
    """Walks a directory recursively from the folder `path` on, each folder followed by its entries.

    Of each folder, at most `limit` entries are read. Warns about a folder that cannot be read.

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
            try:
                inner = one_level(backend, job, entry.directory_id, entry.path, limit=limit)
            except StorageError as error:
                warnings.warn(f"job {job.name}: {visible(error.message)}", stacklevel=5)
                continue
            levels.append(iter(inner))


def _entries(backend: Backend, job: JobResource, limit: int) -> Iterator[OutputFile]:
    directories = directories_of(job.spec)
    for directory_id in sorted(directories, key=STDOUTERR.__ne__):  # logs first, so that the limit keeps them
        with contextlib.suppress(NotFoundError):
            yield from entries_below(backend, job.id, directory_id, limit=limit)


def save(backend: Backend, file: FileRef, target: Path, *, partial: bool = False) -> None:
    """Downloads a job's file to `target` atomically, through a uniquely named temporary file.

    Raises:
        FileChangedError: The file was replaced each time while it was read.
        StorageError: The copy cannot be written (code FileUnwritable), or a finished log is incomplete (code
            LogIncomplete) and not `partial`.
    """
    part = target.with_name(f".{target.name[:40]}.{uuid.uuid4().hex}.part")

    def copy(stream: BinaryIO) -> None:
        stream.seek(0)
        stream.truncate()
        fault = consume(chunks(backend, file), lambda chunk: stream.write(chunk.data))
        if fault and not partial:
            hint = "partial=True takes what is there."
            raise StorageError(fault_text(file.path, fault), code="LogIncomplete", hint=hint)

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("xb") as stream:
                retry_if_changed(lambda: copy(stream))
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{target} cannot be written: {error.strerror}", code="FileUnwritable") from error


def download_all(backend: Backend, job: JobResource, to: Path, *, partial: bool) -> Path:
    """Copies all files to a folder named after the job, each to its listed path; returns the folder."""
    folder = to / job.id.name
    files = all_files(backend, job)
    if files:
        make_download_folder(folder)
    for file, path in zip(files, listed_paths_of(files), strict=True):
        save(backend, ref_of(job.id, file), path_inside(folder, path), partial=partial)
    return folder


def make_download_folder(folder: Path) -> None:
    """Creates the folder of a download, unless it exists, with a mark by which `batchai run` skips it.

    Raises:
        StorageError: It cannot be written.
    """
    folder = folder.expanduser()
    try:
        folder.mkdir(parents=True)
        (folder / DOWNLOAD).touch()
    except FileExistsError:
        return
    except OSError as error:
        raise StorageError(f"{folder} cannot be written: {error.strerror}", code="FileUnwritable") from error


def ref_of(job: ResourceId, file: OutputFile) -> FileRef:
    """The reference of a listed file."""
    return FileRef(job, file.path, file.directory_id)


def listed_paths_of(files: Sequence[OutputFile]) -> list[str]:
    """The listed paths of files; if two nodes have the same short name, with their full names."""
    shared = {path for path, count in Counter(file.display_path for file in files).items() if count > 1}
    return [
        f"{file.directory_id}/{file.path}" if file.display_path in shared else file.display_path
        for file in files
    ]


def download(backend: Backend, file: FileRef, to: Path, *, partial: bool) -> Path:
    """Copies a file, or the files of a folder, below `to`; returns the path of the copy.

    An empty path is the whole directory, which is copied to a folder of its name.

    Raises:
        NotFoundError: There is no such file.
    """
    if not file.path:
        folder = to / file.directory_id
        return _download_folder(backend, file.job, file.directory_id, "", folder, partial=partial)
    path_inside(to, file.path)  # before a request: a path that leaves the folder names no file of the job
    entry, size = OutputFile.regular(file.path, directory_id=file.directory_id), 0
    with contextlib.suppress(NotFoundError):
        size = backend.read(file, 0, 1).size
    if not size:  # it may be a folder
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
            if not path:
                make_download_folder(to)
            _save(backend, job, entry, to, partial=partial)
    return path_inside(to, path)


def _save(backend: Backend, job: ResourceId, file: OutputFile, to: Path, *, partial: bool) -> Path:
    target = path_inside(to, file.path)
    save(backend, ref_of(job, file), target, partial=partial)
    return target


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


def path_inside(folder: Path, path: str) -> Path:
    """The absolute path of a file below a folder; raises StorageError for one that is not."""
    folder = folder.expanduser().resolve()
    target = (folder / path).resolve()
    if not target.is_relative_to(folder):
        hint = "Name a file of the job's output directory."
        raise StorageError(f"{path!r} is outside {folder}", hint=hint)
    return target


def artifacts_of(backend: Backend, job: ResourceId) -> list[Artifact]:
    """The artifacts that a run saved, in order, then the files in `outputs` of its working directories."""
    artifacts = artifacts_in(RECORDS.of(backend).read(job, [FOLDER]))
    with contextlib.suppress(NotFoundError):  # a job that has not started
        for node in one_level(backend, job, WORKDIR):
            if not node.is_directory:
                continue
            with contextlib.suppress(NotFoundError):
                folder = f"{node.path}/{OUTPUTS}"
                for file in entries_below(backend, job, WORKDIR, folder):
                    if file.is_file:
                        name = file.path.removeprefix(f"{folder}/")
                        artifacts.append(
                            Artifact(
                                name, file.path, file.size_bytes, saved=file.modified, directory_id=WORKDIR
                            )
                        )
    return artifacts
