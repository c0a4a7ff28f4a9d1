"""`batchai files` and `batchai download`: what a job wrote, results first."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import resource_commands
from batchai_magics.commands.output.command_progress import BYTES, Operation
from batchai_magics.commands.output.command_result import TableResult, ValueWithNotes
from batchai_magics.commands.output.resource_json import format_time
from batchai_magics.commands.output.text_table import Table
from batchai_magics.errors import StorageError, visible
from batchai_magics.jobs.job_files import (
    make_download_folder,
    named_files,
    place_inside,
    places_of,
    ref_of,
    save,
)
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.job_execution import OutputFile
from batchai_magics.records.preflight import size_text

LOG_INCOMPLETE = "LogIncomplete"


def files(context: Context, arguments: Namespace) -> ValueWithNotes:
    """The files of a job: artifacts, what its script wrote, what was sent, logs."""
    job = Job(context.backend, resource_commands.show_job(context, arguments).id)
    files = [file for file in job.files() if file.is_file]
    pairs = list(zip(files, places_of(files), strict=True))
    rows = ((path, size_text(file.size_bytes), _local_time(file)) for file, path in pairs)
    table = Table(("File", "Size", "Modified"), tuple(rows))
    listed = TableResult([_file_data(*pair) for pair in pairs], table)
    return ValueWithNotes(listed, () if files else (f"{job.name} has no files yet.",))


def _file_data(file: OutputFile, path: str) -> dict[str, Any]:
    modified = {"modified": format_time(file.modified)} if file.modified else {}
    return {"path": path, "size_bytes": file.size_bytes, **modified}


def download(context: Context, arguments: Namespace) -> Operation:
    """Copies all files of a job, those of a folder, or one."""
    job = Job(context.backend, resource_commands.show_job(context, arguments).id)
    files = [file for file in job.files() if file.is_file]
    paths = list(zip(files, places_of(files), strict=True))
    chosen = named_files(files, arguments.path) if arguments.path else paths
    steps = _copy_all(job, chosen, Path(arguments.to or job.name))
    total = sum(file.size_bytes for file, _ in chosen)
    return Operation("Downloading", total, BYTES, steps, "Run the same line again to copy all of them.")


def _copy_all(
    job: Job, files: Sequence[tuple[OutputFile, str]], to: Path
) -> Generator[int, None, ValueWithNotes]:
    copies, notes = [], []
    for file, target in files:
        make_download_folder(to, job.id)
        path = place_inside(to, target)
        try:
            save(job.backend, ref_of(job.id, file), path)
        except StorageError as error:
            if error.code != LOG_INCOMPLETE:
                raise
            notes.append(f"{visible(file.place)} is copied as far as it goes: {error.message}.")
            save(job.backend, ref_of(job.id, file), path, partial=True)
        copies.append((file, path))
        yield file.size_bytes
    data = [  # as `job file download` prints it
        {"contentLength": file.size_bytes, "name": file.place, "path": str(path)} for file, path in copies
    ]
    here = Path.cwd()
    rows = ((_relative_path(path, here), size_text(file.size_bytes)) for file, path in copies)
    return ValueWithNotes(TableResult(data, Table(("Copy", "Size"), tuple(rows))), tuple(notes))


def _local_time(file: OutputFile) -> str:
    return f"{file.modified.astimezone():%Y-%m-%d %H:%M:%S}" if file.modified else ""


def _relative_path(path: Path, here: Path) -> str:
    """The path, relative to the working directory if it is below."""
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
