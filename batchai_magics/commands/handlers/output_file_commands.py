"""`files`, `download`, `job file …`, `cluster file …` and `logs -f`: what jobs and setup tasks wrote."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from batchai_magics.backends.base import SETUP_LOGS, Backend, Chunk, FileRef, fault_text
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import resource_commands
from batchai_magics.commands.handlers.job_wait import job_exit
from batchai_magics.commands.output.command_progress import (
    BYTES,
    CommandExit,
    LogOutput,
    Message,
    Operation,
    Stream,
    StreamParts,
    job_stream,
    resume_command,
)
from batchai_magics.commands.output.command_result import TableResult, ValueWithNotes
from batchai_magics.commands.output.resource_json import format_time
from batchai_magics.commands.output.table_columns import SetupFile
from batchai_magics.commands.output.text_table import Table
from batchai_magics.errors import NotFoundError, StorageError, command_error, visible
from batchai_magics.follow import (
    ConnectionLost,
    ConnectionRestored,
    Event,
    JobFailed,
    LogBytes,
    LogFault,
    events,
)
from batchai_magics.jobs.job_files import (
    entries_below,
    listed_paths_of,
    make_download_folder,
    named_files,
    path_inside,
    ref_of,
    save,
)
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_logs import LogSelection
from batchai_magics.jobs.merged_log import FILES, MergedLog
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.job_execution import FileKind, OutputFile
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import Cluster, JobResource
from batchai_magics.options.option_parsing import relative_path
from batchai_magics.records.preflight import size_text

_LOG_INCOMPLETE = "LogIncomplete"
_NO_STORED_OUTPUT = (
    "List files is supported only for clusters with startup task configure to store its output on "
    "Azure File Share or Azure Blob Container"
)


def files(context: Context, arguments: Namespace) -> ValueWithNotes:
    """The files of a job: artifacts, what its script wrote, what was sent, logs."""
    job = Job(context.backend, resource_commands.show_job(context, arguments).id)
    files = [file for file in job.files() if file.is_file]
    pairs = list(zip(files, listed_paths_of(files), strict=True))
    rows, data = list[tuple[str, ...]](), list[dict[str, Any]]()
    for file, path in pairs:
        modified, size = file.modified, file.size_bytes
        local_time = f"{modified.astimezone():%Y-%m-%d %H:%M:%S}" if modified else ""
        rows.append((path, size_text(size), local_time))
        in_utc = {"modified": format_time(modified)} if modified else {}
        data.append({"path": path, "size_bytes": size, **in_utc})
    result = TableResult(data, Table(("File", "Size", "Modified"), tuple(rows)))
    return ValueWithNotes(result, () if files else (f"{job.name} has no files yet.",))


def download_results(context: Context, arguments: Namespace) -> Operation:
    """Copies all files of a job, a folder's files, or one file."""
    job = Job(context.backend, resource_commands.show_job(context, arguments).id)
    files = [file for file in job.files() if file.is_file]
    pairs = list(zip(files, listed_paths_of(files), strict=True))
    if arguments.path:
        pairs = named_files(files, arguments.path)
    steps = _copy_results(job, pairs, Path(arguments.to or job.name))
    total = sum(file.size_bytes for file, _ in pairs)
    return Operation("Downloading", total, BYTES, steps, "Run the same line again to copy all of them.")


def _copy_results(
    job: Job, files: Sequence[tuple[OutputFile, str]], to: Path
) -> Generator[int, None, ValueWithNotes]:
    copies, notes = [], []
    if files:
        make_download_folder(to)
    for file, target in files:
        path = path_inside(to, target)
        try:
            save(job.backend, ref_of(job.id, file), path)
        except StorageError as error:
            if error.code != _LOG_INCOMPLETE:
                raise
            notes.append(f"{visible(file.display_path)} is copied as far as it goes: {error.message}.")
            save(job.backend, ref_of(job.id, file), path, partial=True)
        copies.append((file, path))
        yield file.size_bytes
    data = [  # as `job file download` prints it
        {"contentLength": file.size_bytes, "name": file.display_path, "path": str(path)}
        for file, path in copies
    ]
    folder = Path.cwd()
    rows = (
        (str(path.relative_to(folder) if path.is_relative_to(folder) else path), size_text(file.size_bytes))
        for file, path in copies
    )
    return ValueWithNotes(TableResult(data, Table(("Copy", "Size"), tuple(rows))), tuple(notes))


def list_of_job(context: Context, arguments: Namespace) -> Sequence[OutputFile]:
    """One level of a job's output directory."""
    id = context.target(arguments, Kind.JOB)
    path = relative_path(arguments.path, "--path")
    return context.backend.files(id, arguments.output_directory_id, path, expiry_min=arguments.expiry)


def stream(context: Context, arguments: Namespace) -> Stream:
    """Streams a job's file as it grows, until the job has ended.

    Raises:
        NotFoundError: The job has ended without writing it; `az` reports this after a timeout.
    """
    job = resource_commands.show_job(context, arguments)
    id = job.id
    path = relative_path(f"{arguments.path}/{arguments.file_name}", "--file-name")
    file = FileRef(id, path, arguments.output_directory_id)
    if job.state.is_final and not arguments.is_az and not _find(context.backend, file):
        hint = _available_hint(context.backend, file) or "It has written no files there."
        raise NotFoundError(f"job {id.name} has no file {visible(path)}", code="FileNotFound", hint=hint)
    back = resume_command(id, "job file stream -j") + f" -f {arguments.file_name}"
    parts = stream_parts(context.backend, file)
    return job_stream(_with_az_messages(context.backend, file, parts) if arguments.is_az else parts, back)


def _with_az_messages(backend: Backend, file: FileRef, parts: StreamParts) -> StreamParts:
    """The parts, after the message of `az` if the file exists."""
    if output := _find(backend, file):
        yield Message(f'File found with URL "{visible(output.download_url or file.path)}". Start streaming')
    yield from parts


def download(context: Context, arguments: Namespace) -> Operation:
    """Downloads the named file of a job, or all files below a folder."""
    job = Job(context.backend, context.target(arguments, Kind.JOB))
    path = relative_path(f"{arguments.path}/{arguments.file_name or ''}".rstrip("/"), "--path")
    ref = FileRef(job.id, path, arguments.output_directory_id)
    if arguments.file_name:
        # the download reports a missing file
        output = _find(context.backend, ref) or OutputFile(path, FileKind.FILE, 0)
        if not output.is_file:
            raise NotFoundError(f"{output.name} is {output.kind.words}, not a file", code="FileNotFound")
        files = [replace(output, directory_id=ref.directory_id)]
    else:
        entries = entries_below(context.backend, job.id, ref.directory_id, path)
        files = [entry for entry in entries if not entry.is_directory]
    if not files:
        folder = "/".join(filter(None, (ref.directory_id, path)))
        raise NotFoundError(f"job {job.name} has no files in {folder}", code="FileNotFound")
    regular_files = [file for file in files if file.is_file]
    notes = [f"{visible(file.path)} is {file.kind.words}: left out" for file in files if not file.is_file]
    steps = _download_all(job, regular_files, Path(arguments.dest), notes)
    total = sum(file.size_bytes for file in regular_files)
    return Operation("Downloading", total, BYTES, steps, "Run the same line again to resume with that file.")


def _download_all(
    job: Job, files: Sequence[OutputFile], to: Path, notes: Sequence[str]
) -> Generator[int, None, ValueWithNotes]:
    copies = []
    for file in files:
        local_path = job.download(file.path, to, directory_id=file.directory_id)
        copies.append({"contentLength": file.size_bytes, "name": file.path, "path": str(local_path)})
        yield file.size_bytes
    return ValueWithNotes(copies, tuple(notes))


def stream_parts(
    backend: Backend, file: FileRef, select: Callable[[Chunk], bytes] = lambda chunk: chunk.data
) -> StreamParts:
    """Yields what `select` takes of a file as it grows, with messages about it, until the job has ended."""
    exists = _find(backend, file) is not None
    if not exists:
        hint = _available_hint(backend, file)
        yield Message(f"Waiting for {file.job.name} to write {visible(file.path)}. {hint}".rstrip())
    for event in chain.from_iterable(events(backend, file.job, files=(file,))):
        if isinstance(event, LogBytes) and event.chunk.data:
            exists = True
            yield LogOutput(select(event.chunk))
        elif isinstance(event, LogFault):  # at the end
            yield Message(f'Warning: The file "{visible(file.path)}" is not complete: {event.fault}.')
        elif isinstance(event, ConnectionLost | ConnectionRestored):
            yield Message(event.sentence)
    if exists or _find(backend, file):
        yield CommandExit(0)
    else:
        yield Message(f"{file.job.name} has ended without writing {visible(file.path)}.")
        yield Message(_available_hint(backend, file) or "There are no other files.")
        job = backend.show(file.job)
        assert isinstance(job, JobResource)
        yield job_exit(job)


def _available_hint(backend: Backend, file: FileRef) -> str:
    """A sentence that lists the files beside this one; empty without any."""
    names = ", ".join(visible(item.path) + "/" * item.is_directory for item in _siblings(backend, file))
    return f"Available: {names}." if names else ""


def _find(backend: Backend, file: FileRef) -> OutputFile | None:
    return next((item for item in _siblings(backend, file) if item.path == file.path), None)


def _siblings(backend: Backend, file: FileRef) -> Sequence[OutputFile]:
    """The entries of the file's folder."""
    try:
        return backend.files(file.job, file.directory_id, file.path.rpartition("/")[0])
    except NotFoundError:
        return ()


def list_of_cluster(context: Context, arguments: Namespace) -> Sequence[SetupFile]:
    """One level of the files that the cluster's setup task wrote."""
    id = context.cluster(arguments)
    path = relative_path(arguments.path, "--path")
    cluster = context.backend.show(id)
    assert isinstance(cluster, Cluster)
    check_setup_logs(cluster.spec)
    files = SETUP_LOGS.of(context.backend).files(id, path, expiry_min=arguments.expiry)
    return [SetupFile(**vars(file)) for file in files]


def check_setup_logs(spec: ClusterSpec) -> None:
    """Raises a command error for a cluster whose setup task stores no files."""
    task = spec.node_setup.setup_task if spec.node_setup else None
    if task is None:
        raise command_error(
            _NO_STORED_OUTPUT, hint="Create the cluster with --setup-task and --setup-task-output."
        )
    if not task.std_out_err_path_suffix:
        raise command_error("List files is not supported for this cluster")


def follow_output(backend: Backend, job: ResourceId, path: str, selection: LogSelection) -> StreamParts:
    """The output as it grows: one file, or both streams merged, until the job has ended."""
    if path:
        yield from stream_parts(backend, FileRef(job, path), selection.of)
        return
    log, files = MergedLog(), [FileRef(job, name) for name in FILES]
    for batch in events(backend, job, files=files):
        yield from _new_output(log, batch, selection)
    yield from (LogOutput(selection.lines_of(chunk)) for chunk in log.finish())
    yield CommandExit(0)


def _new_output(log: MergedLog, batch: Iterable[Event], selection: LogSelection) -> StreamParts:
    """The lines that the events of a poll complete, and messages."""
    messages = []
    for event in batch:
        if isinstance(event, LogBytes):
            log.add(event.file.path, selection.chunk_since(event.chunk), is_restarted=event.restarted)
            if not log.is_possible:  # write times are not known
                yield LogOutput(selection.of(event.chunk))
        elif isinstance(event, LogFault):
            messages.append(f"Warning: {fault_text(visible(event.file.path), event.fault)}.")
        elif isinstance(event, ConnectionLost | ConnectionRestored):
            messages.append(event.sentence)
        elif isinstance(event, JobFailed):
            messages += [event.error.sentence, *event.error.hints]
    yield from (LogOutput(selection.lines_of(chunk)) for chunk in log.advance())
    yield from map(Message, dict.fromkeys(messages))
