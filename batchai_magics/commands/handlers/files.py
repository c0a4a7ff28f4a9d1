"""`batchai job file …` and `batchai cluster file …`: what jobs and setup tasks wrote."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from batchai_magics.backends.base import SETUP_LOGS, Backend, Chunk, FileRef
from batchai_magics.commands.context import Context
from batchai_magics.commands.handlers import resources
from batchai_magics.commands.handlers.job import way_back
from batchai_magics.commands.handlers.waiting import connection, ending
from batchai_magics.commands.output.columns import SetupFile
from batchai_magics.commands.output.operation import BYTES, Operation
from batchai_magics.commands.output.result import Noted
from batchai_magics.commands.output.stream import Ended, Logged, Parts, Said, Stream, watching
from batchai_magics.errors import NotFoundError, command_error, visible
from batchai_magics.follow import ConnectionLost, ConnectionRestored, LogBytes, LogFault, events
from batchai_magics.jobs.files import entries_below
from batchai_magics.jobs.handle import Job
from batchai_magics.models.cluster import ClusterSpec
from batchai_magics.models.execution import FileKind, OutputFile
from batchai_magics.models.ids import Kind
from batchai_magics.models.resources import Cluster, JobResource
from batchai_magics.options.option_parsing import relative_path

_UNSTORED = (
    "List files is supported only for clusters with startup task configure to store its output on "
    "Azure File Share or Azure Blob Container"
)


def list_of_job(context: Context, arguments: Namespace) -> Sequence[OutputFile]:
    """One level of a job's output directory."""
    id = context.target(arguments, Kind.JOB)
    path = relative_path(arguments.path, "--path")
    return context.backend.files(id, arguments.output_directory_id, path, expiry_min=arguments.expiry)


def stream(context: Context, arguments: Namespace) -> Stream:
    """The bytes of a job's file as they are written, until the job has ended."""
    id = resources.show(context, arguments, Kind.JOB).id
    path = relative_path(f"{arguments.path}/{arguments.file_name}", "--file-name")
    file = FileRef(id, path, arguments.output_directory_id)
    back = way_back(id, "job file stream -j") + f" -f {arguments.file_name}"
    return watching(_streaming(context.backend, file), back)


def download(context: Context, arguments: Namespace) -> Operation:
    """Copies files of a job to this machine: the one that is named, or all in a folder at any depth."""
    job = Job(context.backend, context.target(arguments, Kind.JOB))
    path = relative_path(f"{arguments.path}/{arguments.file_name or ''}".rstrip("/"), "--path")
    ref = FileRef(job.id, path, arguments.output_directory_id)
    found = _named(context.backend, ref) if arguments.file_name else _all_in(context.backend, ref)
    copied = [file for file in found if file.is_file]
    left_out = [f"{visible(file.path)} is {file.kind.words}: left out" for file in found if not file.is_file]
    steps = _downloading(job, copied, Path(arguments.dest), left_out)
    total = sum(file.size_bytes for file in copied)
    return Operation(
        "Downloading", total, BYTES, steps, "The same line begins again with the file it was at."
    )


def _named(backend: Backend, file: FileRef) -> list[OutputFile]:
    found = _find(backend, file) or OutputFile(
        file.path, FileKind.FILE, 0
    )  # downloading it says what there is
    if not found.is_file:
        raise NotFoundError(f"{found.name} is {found.kind.words}, not a file", code="FileNotFound")
    return [replace(found, directory_id=file.directory_id)]


def _all_in(backend: Backend, folder: FileRef) -> list[OutputFile]:
    entries = entries_below(backend, folder.job, folder.directory_id, folder.path)
    found = [entry for entry in entries if not entry.is_directory]
    if not found:
        place = "/".join(filter(None, (folder.directory_id, folder.path)))
        raise NotFoundError(f"job {folder.job.name} has no files in {place}", code="FileNotFound")
    return found


def _downloading(
    job: Job, files: Sequence[OutputFile], to: Path, notes: Sequence[str]
) -> Generator[int, None, Noted]:
    copied = []
    for file in files:
        place = job.download(file.path, to, directory_id=file.directory_id)
        copied.append({"contentLength": file.size_bytes, "name": file.path, "path": str(place)})
        yield file.size_bytes
    return Noted(copied, tuple(notes))


def _streaming(backend: Backend, file: FileRef) -> Parts:
    listed = _find(backend, file)
    missing = f'The file "{file.path}" not found. Waiting for the job to generate it.'
    yield Said(_found_line(listed) if listed else missing)
    for part in _parts(backend, file):
        if not isinstance(part, Chunk):
            yield _remark(part, file)
            continue
        if not listed:
            listed = _find(backend, file) or OutputFile(file.path, FileKind.FILE, part.size)
            yield Said(_found_line(listed))
        yield Logged(part.data)
    if listed or _find(backend, file):
        yield Ended(0)
    else:
        yield from _never_came(backend, file)


def _remark(part: LogFault | ConnectionLost | ConnectionRestored, file: FileRef) -> Said:
    if isinstance(part, LogFault):
        return Said(f'Warning: The file "{visible(file.path)}" is not complete: {part.fault}.')
    return connection(part)


def _never_came(backend: Backend, file: FileRef) -> Parts:
    """A job ended without the file: what there is in its folder, and how the job failed if it did."""
    yield Said(f'The file "{file.path}" not found for the completed job.')
    names = ", ".join(visible(item.path) + "/" * item.is_directory for item in _neighbours(backend, file))
    yield Said(f"There is: {names}." if names else "There is nothing beside it.")
    job = backend.show(file.job)
    assert isinstance(job, JobResource)
    yield ending(job)


def _parts(
    backend: Backend, file: FileRef
) -> Iterator[Chunk | LogFault | ConnectionLost | ConnectionRestored]:
    """The pieces of the file that hold something, as they come; at last what is wrong with it.

    Between them, when the backend does not answer any more, and when it does again.
    """
    for event in events(backend, file.job, files=(file,)):
        if isinstance(event, LogBytes) and event.chunk.data:
            yield event.chunk
        elif isinstance(event, LogFault | ConnectionLost | ConnectionRestored):
            yield event


def _find(backend: Backend, file: FileRef) -> OutputFile | None:
    return next((item for item in _neighbours(backend, file) if item.path == file.path), None)


def _neighbours(backend: Backend, file: FileRef) -> Sequence[OutputFile]:
    """What is in the folder of the file."""
    try:
        return backend.files(file.job, file.directory_id, file.path.rpartition("/")[0])
    except NotFoundError:
        return ()


def _found_line(file: OutputFile) -> str:
    return f'File found with URL "{visible(file.download_url or file.path)}". Start streaming'


def list_of_cluster(context: Context, arguments: Namespace) -> Sequence[SetupFile]:
    """One level of what the cluster's setup task wrote."""
    id = context.cluster(arguments)
    path = relative_path(arguments.path, "--path")
    cluster = context.backend.show(id)
    assert isinstance(cluster, Cluster)
    check(cluster.spec)
    files = SETUP_LOGS.of(context.backend).files(id, path, expiry_min=arguments.expiry)
    return [SetupFile(**vars(file)) for file in files]


def check(spec: ClusterSpec) -> None:
    """Refuses a cluster whose setup task left nothing that could be listed."""
    task = spec.node_setup.setup_task if spec.node_setup else None
    if task is None:
        raise command_error(_UNSTORED, hint="Create the cluster with --setup-task and --setup-task-output.")
    if not task.std_out_err_path_suffix:
        raise command_error("List files is not supported for this cluster")
