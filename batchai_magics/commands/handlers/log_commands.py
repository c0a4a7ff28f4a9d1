"""`batchai logs`: both streams of a job as one log, one of them, or another file."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from batchai_magics.backends.base import Backend, Chunk, FileRef, Span, fault_text
from batchai_magics.backends.base.failure_logs import PREPARATION_LOG
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import output_file_commands, resource_commands
from batchai_magics.commands.handlers.job_commands import resume_command
from batchai_magics.commands.handlers.job_wait import connection_message
from batchai_magics.commands.output.command_progress import (
    CommandExit,
    LogOutput,
    Message,
    Stream,
    StreamParts,
    job_stream,
)
from batchai_magics.errors import UsageError, visible
from batchai_magics.follow import (
    ConnectionLost,
    ConnectionRestored,
    Event,
    FailureFound,
    LogBytes,
    LogFault,
    event_batches,
)
from batchai_magics.follow.job_errors import paths_of
from batchai_magics.jobs.job_files import check_log_exists
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_logs import CHUNK_BYTES, read_redacted
from batchai_magics.jobs.merged_log import FILES, MergedLog, unmarked
from batchai_magics.log_lines import lines_at_end
from batchai_magics.models.job_execution import ERR, OUT
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.resources import JobResource
from batchai_magics.models.wire_times import duration
from batchai_magics.options.job_options import short_duration
from batchai_magics.options.option_parsing import relative_path

_STOPPED = "Stopped printing; the job is not affected."
_STREAMS = {OUT: "stdout", ERR: "stderr"}


def logs(context: Context, arguments: Namespace) -> Stream:
    """Prints a job's output as far as it goes, or until the job has ended.

    Raises:
        NotFoundError: The job has no such file, and it is not followed; the hint lists the files.
    """
    flags = {"--out": OUT * bool(arguments.out), "--err": ERR * bool(arguments.err), "--file": arguments.file}
    given = [flag for flag, file in flags.items() if file]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} are both given", hint="keep one of them")
    if arguments.follow and arguments.tail:
        raise UsageError("--follow and --tail are both given", hint="keep one of them")
    shown = resource_commands.show(context, arguments, Kind.JOB)
    assert isinstance(shown, JobResource)
    job, selection = Job(context.backend, shown.id), LogSelection(arguments.rank, _since(arguments.since))
    path = relative_path(flags[given[0]], given[0]) if given else ""
    if arguments.follow:
        again = f"{resume_command(job.id, 'logs')} -f" + (f" --file {path}" if path else "")
        return job_stream(_with_own_paths(_followed(job, path, selection), shown), again)
    if path:
        check_log_exists(job.backend, job.id, path)
    parts = _with_own_paths(_content(job, _files(shown, job, path), selection), shown)
    return Stream(_tail(parts, arguments.tail) if arguments.tail else parts, _STOPPED)


def _with_own_paths(parts: StreamParts, job: JobResource) -> StreamParts:
    """The parts with paths in the copy of the user's files as their own."""
    paths = paths_of(job)
    for part in parts:
        yield replace(part, data=paths.shown_bytes(part.data)) if isinstance(part, LogOutput) else part


def _files(shown: JobResource, job: Job, path: str) -> Sequence[str]:
    """The logs to print: both streams or the one asked for; those of a preparation that failed first."""
    wanted = [path] if path else list(FILES)
    if path not in ("", OUT, ERR) or not shown.has_failed or shown.ranks:
        return wanted
    found = [file.path for file in job.files("stdouterr") if file.is_file and PREPARATION_LOG in file.path]
    begins = tuple(_STREAMS[name] for name in wanted)
    own = (name for name in found if name.startswith(begins))
    return [*sorted(own, key=lambda name: (name.startswith(_STREAMS[ERR]), name)), *wanted]


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
        start = self._start(chunk)
        spans = chunk.spans or (Span(chunk.offset, chunk.end, 0),)
        wanted = [span for span in spans if self.rank in (None, span.rank)]
        if len(wanted) == len(spans):
            return chunk.data[start - chunk.offset :]
        parts = ((max(span.start, start), span.end) for span in wanted)
        return b"".join(chunk.data[a - chunk.offset : b - chunk.offset] for a, b in parts if a < b)

    def later(self, chunk: Chunk) -> Chunk:
        """The part of a chunk that was written late enough."""
        start = self._start(chunk)
        return replace(chunk, data=chunk.data[start - chunk.offset :], offset=start)

    def lines_of(self, chunk: Chunk) -> bytes:
        """The selected lines of a chunk of the merged log."""
        return LogSelection(self.rank).of(unmarked(chunk))

    def _start(self, chunk: Chunk) -> int:
        if self.since is None or not chunk.times:
            return chunk.offset
        times = (each.start for each in chunk.times if each.time >= self.since)
        return max(chunk.offset, next(times, chunk.end))


def _since(text: str | None) -> float | None:
    """The time that lies so far back, in seconds since 1970."""
    return None if text is None else time.time() - duration(short_duration("--since", text)).total_seconds()


def _content(job: Job, files: Sequence[str], selection: LogSelection) -> StreamParts:
    """What the logs have now, secrets as asterisks: both streams merged, others one after the other."""
    chunks = _merged(job, selection) if tuple(files) == FILES else None
    is_empty = True
    for data in chunks if chunks is not None else _one_by_one(job, files, selection):
        is_empty = is_empty and not data
        yield LogOutput(data)
    if is_empty and selection.rank is not None:
        named = " or ".join(map(visible, files))
        yield Message(f"Rank {selection.rank} of {job.name} has written nothing to {named}.")


def _one_by_one(job: Job, files: Sequence[str], selection: LogSelection) -> Iterator[bytes]:
    """The selected bytes of each log, below its name if there are several with content."""
    starts = {name: read_redacted(job.backend, FileRef(job.id, name), 0, CHUNK_BYTES) for name in files}
    present = [name for name in files if starts[name].data]
    for name in present:
        if len(present) > 1:
            yield f"==> {name} <==\n".encode()
        chunk, last = starts[name], b""
        while chunk.data:
            last = selection.of(chunk)
            yield last
            chunk = read_redacted(job.backend, FileRef(job.id, name), chunk.end, CHUNK_BYTES)
        if name != present[-1] and not last.endswith(b"\n"):
            yield b"\n"


def _merged(job: Job, selection: LogSelection) -> Iterator[bytes] | None:
    """The selected lines of both streams in the order of writing; None if their times are not known."""
    chunks = {name: read_redacted(job.backend, FileRef(job.id, name), 0, CHUNK_BYTES) for name in FILES}
    if not all(chunk.data for chunk in chunks.values()) or not all(chunk.times for chunk in chunks.values()):
        return None
    return _merged_lines(job.backend, job, chunks, selection)


def _merged_lines(
    backend: Backend, job: Job, chunks: dict[str, Chunk], selection: LogSelection
) -> Iterator[bytes]:
    log = MergedLog()
    while any(chunk.data for chunk in chunks.values()):
        for name, chunk in chunks.items():
            log.add(name, selection.later(chunk))
            chunks[name] = read_redacted(backend, FileRef(job.id, name), chunk.end, CHUNK_BYTES)
        yield from map(selection.lines_of, log.advance())
    yield from map(selection.lines_of, log.finish())


def _followed(job: Job, path: str, selection: LogSelection) -> StreamParts:
    """The output as it grows: one file, or both streams merged, until the job has ended."""
    if path:
        yield from output_file_commands.stream_parts(job.backend, FileRef(job.id, path), selection.of)
        return
    log, files = MergedLog(), [FileRef(job.id, name) for name in FILES]
    for batch in event_batches(job.backend, job.id, files=files):
        yield from _new_output(log, batch, selection)
    yield from (LogOutput(selection.lines_of(chunk)) for chunk in log.finish())
    yield CommandExit(0)


def _new_output(log: MergedLog, batch: Iterable[Event], selection: LogSelection) -> StreamParts:
    """The lines that the events of a poll complete, and messages."""
    messages = []
    for event in batch:
        if isinstance(event, LogBytes):
            log.add(event.file.path, selection.later(event.chunk), is_restarted=event.restarted)
            if not log.is_possible:  # write times are not known
                yield LogOutput(selection.of(event.chunk))
        elif isinstance(event, LogFault):
            messages.append(f"Warning: {fault_text(visible(event.file.path), event.fault)}.")
        elif isinstance(event, ConnectionLost | ConnectionRestored):
            messages.append(connection_message(event).text)
        elif isinstance(event, FailureFound):
            messages += [event.error.sentence, *event.error.hints]
    yield from (LogOutput(selection.lines_of(chunk)) for chunk in log.advance())
    yield from map(Message, dict.fromkeys(messages))


def _tail(parts: StreamParts, count: int) -> StreamParts:
    """The last lines of an output."""
    end = b""
    for part in parts:
        if isinstance(part, LogOutput):
            end = b"".join(lines_at_end(end + part.data, count))
        else:
            yield part
    yield LogOutput(end)
