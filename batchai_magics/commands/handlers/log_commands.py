"""`batchai logs`: both streams of a job as one log, one of them, or another file."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from batchai_magics.backends.base import Backend, FileRef
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers import resource_commands
from batchai_magics.commands.handlers.job_commands import later_run_notes
from batchai_magics.commands.output.command_progress import (
    LogOutput,
    Message,
    Stream,
    StreamParts,
    job_stream,
    resume_command,
)
from batchai_magics.errors import UsageError, visible
from batchai_magics.follow.job_errors import PREPARATION_LOG, paths_of
from batchai_magics.jobs.job_files import check_log_exists, one_level
from batchai_magics.jobs.job_logs import LogReader, LogSelection
from batchai_magics.jobs.merged_log import FILES, MergedLog
from batchai_magics.log_lines import lines_at_end
from batchai_magics.models.job_execution import ERR, OUT, STDOUTERR
from batchai_magics.models.resource_ids import ResourceId
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
    chosen = [flag for flag, file in flags.items() if file]
    if len(chosen) > 1:
        raise UsageError(f"{chosen[0]} and {chosen[1]} are both given", hint="keep one of them")
    if arguments.follow and arguments.tail:
        raise UsageError("--follow and --tail are both given", hint="keep one of them")
    job = resource_commands.show_job(context, arguments)
    since = None
    if arguments.since is not None:
        since = time.time() - duration(short_duration("--since", arguments.since)).total_seconds()
    backend, selection = context.backend, LogSelection(arguments.rank, since)
    path = relative_path(flags[chosen[0]], chosen[0]) if chosen else ""
    if arguments.follow:
        from batchai_magics.commands.handlers.output_file_commands import follow_output  # imports log readers

        resume = f"{resume_command(job.id, 'logs')} -f" + (f" --file {path}" if path else "")
        return job_stream(_with_user_paths(follow_output(backend, job.id, path, selection), job), resume)
    if path:
        check_log_exists(backend, job.id, path)
    parts = _with_user_paths(_content(backend, job.id, _files(backend, job, path), selection), job)
    parts = _tail(parts, arguments.tail) if arguments.tail else parts
    reason = job.lost_predecessor
    notes = [f"{job.id.name} has no log: {reason}."] if reason else []
    return Stream(_with_notes(parts, [*notes, *later_run_notes(context, job)]), _STOPPED)


def _with_notes(parts: StreamParts, notes: Iterable[str]) -> StreamParts:
    yield from parts
    yield from map(Message, notes)


def _with_user_paths(parts: StreamParts, job: JobResource) -> StreamParts:
    """The parts with the paths of the user's files instead of those of their copies."""
    paths = paths_of(job)
    for part in parts:
        if isinstance(part, LogOutput):
            part = replace(part, data=paths.bytes_with_user_paths(part.data))
        yield part


def _files(backend: Backend, job: JobResource, path: str) -> Sequence[str]:
    """The logs to print: the requested one or both streams, after the logs of a failed preparation."""
    names = [path] if path else list(FILES)
    if path not in ("", OUT, ERR) or not job.has_failed or job.ranks:
        return names
    entries = one_level(backend, job.id, STDOUTERR, "")
    logs = [file.path for file in entries if file.is_file and PREPARATION_LOG in file.path]
    prefixes = tuple(_STREAMS[name] for name in names)
    node_logs = (name for name in logs if name.startswith(prefixes))
    return [*sorted(node_logs, key=lambda name: (name.startswith(_STREAMS[ERR]), name)), *names]


def _content(backend: Backend, job: ResourceId, files: Sequence[str], selection: LogSelection) -> StreamParts:
    """The present content of the logs, secrets as asterisks: both streams merged, others in sequence.

    What is wrong with a log of a finished job comes last.
    """
    logs = {name: LogReader(backend, FileRef(job, name)) for name in files}
    # lines can be put into the order of writing only if their times are known
    is_timed = all(log.chunk.data and log.chunk.times for log in logs.values())
    read = _merged_lines if tuple(files) == FILES and is_timed else _one_by_one
    is_empty = True
    for data in read(logs, selection):
        is_empty = is_empty and not data
        yield LogOutput(data)
    if is_empty and selection.rank is not None:
        names = " or ".join(map(visible, files))
        yield Message(f"Rank {selection.rank} of {job.name} has written nothing to {names}.")
    yield from map(Message, dict.fromkeys(log.fault for log in logs.values() if log.fault))


def _one_by_one(logs: dict[str, LogReader], selection: LogSelection) -> Iterator[bytes]:
    """The selected bytes of each log, below its name if there are several with content."""
    present = [name for name, log in logs.items() if log.chunk.data]
    for name in present:
        if len(present) > 1:
            yield f"==> {name} <==\n".encode()
        log, selected = logs[name], b""
        while log.chunk.data:
            selected = selection.of(log.chunk)
            yield selected
            log.advance()
        if name != present[-1] and not selected.endswith(b"\n"):
            yield b"\n"


def _merged_lines(logs: dict[str, LogReader], selection: LogSelection) -> Iterator[bytes]:
    """The selected lines of both streams in the order of writing."""
    merged = MergedLog()
    while any(log.chunk.data for log in logs.values()):
        for name, log in logs.items():
            merged.add(name, selection.chunk_since(log.chunk))
            log.advance()
        yield from map(selection.lines_of, merged.advance())
    yield from map(selection.lines_of, merged.finish())


def _tail(parts: StreamParts, count: int) -> StreamParts:
    """The last lines of an output."""
    end = b""
    for part in parts:
        if isinstance(part, LogOutput):
            end = b"".join(lines_at_end(end + part.data, count))
        else:
            yield part
    yield LogOutput(end)
