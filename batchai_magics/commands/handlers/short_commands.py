"""`batchai logs`, `cancel`, `ps` and `watch`."""

from __future__ import annotations

from argparse import Namespace

from batchai_magics.backends.base import FileRef
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import output_file_commands, resource_commands
from batchai_magics.commands.handlers.job_commands import resume_command
from batchai_magics.commands.output.command_progress import LogOutput, Stream, StreamParts, job_stream
from batchai_magics.commands.output.command_result import ValueWithNotes
from batchai_magics.commands.output.job_list import JobList
from batchai_magics.errors import NotFoundError, UsageError, visible
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_logs import CHUNK_BYTES, read_redacted
from batchai_magics.models.job_execution import ERR, OUT
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import JobResource
from batchai_magics.options.option_parsing import relative_path

MAX_WATCHED = 20  # of the newest jobs that `watch` shows beside those that wait or run


def logs(context: Context, arguments: Namespace) -> Stream:
    """Prints a log of a job as far as it goes, or until the job has ended.

    Raises:
        NotFoundError: The job has no such file, and it is not followed; the hint lists the files.
    """
    if arguments.err and arguments.file:
        raise UsageError("--err and --file are both given", hint="keep one of them")
    if arguments.follow and arguments.tail:
        raise UsageError("--follow and --tail are both given", hint="keep one of them")
    job = Job(context.backend, resource_commands.show(context, arguments, Kind.JOB).id)
    path = relative_path(arguments.file or (ERR if arguments.err else OUT), "--file")
    if arguments.follow:
        again = f"{resume_command(job.id, 'logs')} -f" + (f" --file {path}" if path != OUT else "")
        return job_stream(output_file_commands.stream_parts(context.backend, FileRef(job.id, path)), again)
    _check_exists(job, path)
    parts = _tail(job, path, arguments.tail) if arguments.tail else _content(job, path)
    return Stream(parts, "Stopped printing; the job is left as it is.")


def _check_exists(job: Job, path: str) -> None:
    names = [file.path for file in job.files("stdouterr") if file.is_file]
    if path in names or path in (OUT, ERR):
        return
    hint = f"Its files: {', '.join(map(visible, names))}." if names else "It has written no file yet."
    raise NotFoundError(f"job {job.name} has no file {visible(path)}", code="FileNotFound", hint=hint)


def _content(job: Job, path: str) -> StreamParts:
    """The bytes that the file has now, secrets as asterisks."""
    file, offset = FileRef(job.id, path), 0
    while data := read_redacted(job.backend, file, offset, CHUNK_BYTES).data:
        yield LogOutput(data)
        offset += len(data)


def _tail(job: Job, path: str, count: int) -> StreamParts:
    if text := job.log(count, file=path):
        yield LogOutput(text.encode())


def cancel(context: Context, arguments: Namespace) -> ValueWithNotes:
    """Cancels a job."""
    job = resource_commands.show(context, arguments, Kind.JOB)
    if isinstance(job, JobResource) and job.state.is_final:
        return ValueWithNotes(None, (f"{job.id.name} has ended already: {job.word}.",))
    context.backend.terminate(job.id)
    return ValueWithNotes(None, (f"Cancelling {job.id.name}.",))


def active(context: Context, arguments: Namespace) -> ValueWithNotes:
    """The jobs of the experiment that have not ended."""
    jobs = resource_commands.list_children(context, context.experiment(arguments), Kind.JOB)
    waiting = [job for job in jobs if isinstance(job, JobResource) and not job.state.is_final]
    notes = () if waiting else ("No job waits or runs.",)
    return ValueWithNotes(JobList(waiting, context.backend), notes)


def watched(context: Context, arguments: Namespace) -> JobList:
    """The jobs that wait or run and the newest others: what `watch` shows at one moment."""
    found = resource_commands.list_children(context, context.experiment(arguments), Kind.JOB)
    jobs = [job for job in found if isinstance(job, JobResource)]
    newest = {job.id.key for job in jobs[-MAX_WATCHED:]}
    return JobList((j for j in jobs if j.id.key in newest or not j.state.is_final), context.backend)
