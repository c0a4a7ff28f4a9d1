"""`batchai logs`, `stacks`, `cancel`, `ps` and `watch`."""

from __future__ import annotations

import time
from argparse import Namespace
from dataclasses import dataclass

from batchai_magics.backends.base import Chunk, FileRef, Span
from batchai_magics.cell.cell_option_values import short_duration
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import output_file_commands, resource_commands
from batchai_magics.commands.handlers.job_commands import idle_notes, resume_command
from batchai_magics.commands.output.command_progress import (
    LogOutput,
    Message,
    Stream,
    StreamParts,
    job_stream,
)
from batchai_magics.commands.output.command_result import ValueWithNotes
from batchai_magics.commands.output.job_list import JobList, NewestFirst
from batchai_magics.errors import NotFoundError, UsageError, visible
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_logs import CHUNK_BYTES, read_redacted
from batchai_magics.log_lines import lines_at_end
from batchai_magics.models.job_execution import ERR, OUT
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import JobResource
from batchai_magics.models.wire_times import duration
from batchai_magics.options.option_parsing import relative_path

_STOPPED = "Stopped printing; the job is not affected."
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
    selection = LogSelection(arguments.rank, _since(arguments.since))
    if arguments.follow:
        again = f"{resume_command(job.id, 'logs')} -f" + (f" --file {path}" if path != OUT else "")
        file = FileRef(job.id, path)
        return job_stream(output_file_commands.stream_parts(context.backend, file, selection.of), again)
    _check_exists(job, path)
    parts = _content(job, path, selection)
    return Stream(_tail(parts, arguments.tail) if arguments.tail else parts, _STOPPED)


@dataclass(frozen=True)
class LogSelection:
    """The part of a log that a line asks for.

    Attributes:
        rank: Only what this rank has written; None for all. Bytes of unknown origin count as rank 0's.
        since: Only what was written from this time on, in seconds since 1970; None for all.
    """

    rank: int | None = None
    since: float | None = None

    def of(self, chunk: Chunk) -> bytes:
        """The selected bytes of a chunk; those of an unknown time are selected."""
        start = chunk.offset
        if self.since is not None and chunk.times:
            times = (each.start for each in chunk.times if each.time >= self.since)
            start = max(start, next(times, chunk.end))
        spans = chunk.spans or (Span(chunk.offset, chunk.end, 0),)
        wanted = [span for span in spans if self.rank in (None, span.rank)]
        if len(wanted) == len(spans):
            return chunk.data[start - chunk.offset :]
        parts = ((max(span.start, start), span.end) for span in wanted)
        return b"".join(chunk.data[a - chunk.offset : b - chunk.offset] for a, b in parts if a < b)


def _since(text: str | None) -> float | None:
    """The time that lies so far back, in seconds since 1970."""
    span = short_duration("--since", text)
    return time.time() - duration(span).total_seconds() if span else None


def _check_exists(job: Job, path: str) -> None:
    names = [file.path for file in job.files("stdouterr") if file.is_file]
    if path in names or path in (OUT, ERR):
        return
    hint = f"Its files: {', '.join(map(visible, names))}." if names else "It has not written any files yet."
    raise NotFoundError(f"job {job.name} has no file {visible(path)}", code="FileNotFound", hint=hint)


def _content(job: Job, path: str, selection: LogSelection) -> StreamParts:
    """The selected bytes that the file has now, secrets as asterisks."""
    file, offset, is_empty = FileRef(job.id, path), 0, True
    while (chunk := read_redacted(job.backend, file, offset, CHUNK_BYTES)).data:
        data, offset = selection.of(chunk), chunk.end
        is_empty = is_empty and not data
        yield LogOutput(data)
    if is_empty and selection.rank is not None:
        yield Message(f"Rank {selection.rank} of {job.name} has written nothing to {visible(path)}.")


def _tail(parts: StreamParts, count: int) -> StreamParts:
    """The last lines of an output."""
    end = b""
    for part in parts:
        if isinstance(part, LogOutput):
            end = b"".join(lines_at_end(end + part.data, count))
        else:
            yield part
    yield LogOutput(end)


def cancel(context: Context, arguments: Namespace) -> ValueWithNotes:
    """Cancels a job."""
    job = resource_commands.show(context, arguments, Kind.JOB)
    if isinstance(job, JobResource) and job.state.is_final:
        return ValueWithNotes(None, (f"{job.id.name} has already ended ({job.word}).",))
    context.backend.terminate(job.id)
    return ValueWithNotes(None, (f"Cancelling {job.id.name}.",))


def active(context: Context, arguments: Namespace) -> ValueWithNotes:
    """The jobs of the experiment that have not ended."""
    jobs = resource_commands.list_children(context, context.experiment(arguments), Kind.JOB)
    waiting = [job for job in jobs if isinstance(job, JobResource) and not job.state.is_final]
    notes = () if waiting else ("No jobs are queued or running.",)
    shown = JobList(waiting, context.backend, has_elapsed=True)
    return ValueWithNotes(shown, (*notes, *idle_notes(context, arguments)))


def watched(context: Context, arguments: Namespace) -> JobList:
    """The jobs that wait or run and the newest others, newest first: what `watch` shows at one moment."""
    found = resource_commands.list_children(context, context.experiment(arguments), Kind.JOB)
    jobs = [job for job in found if isinstance(job, JobResource)]
    newest = {job.id.key for job in jobs[-MAX_WATCHED:]}
    shown = (job for job in jobs if job.id.key in newest or not job.state.is_final)
    return NewestFirst(shown, context.backend, has_elapsed=True)
