"""`batchai logs -f`: a job's output as it grows."""

from __future__ import annotations

from collections.abc import Iterable

from batchai_magics.backends.base import Backend, FileRef, fault_text
from batchai_magics.commands.handlers import output_file_commands
from batchai_magics.commands.handlers.job_wait import connection_message
from batchai_magics.commands.output.command_progress import CommandExit, LogOutput, Message, StreamParts
from batchai_magics.errors import visible
from batchai_magics.follow import (
    ConnectionLost,
    ConnectionRestored,
    Event,
    FailureFound,
    LogBytes,
    LogFault,
    event_batches,
)
from batchai_magics.jobs.job_logs import LogSelection
from batchai_magics.jobs.merged_log import FILES, MergedLog
from batchai_magics.models.resource_ids import ResourceId


def followed(backend: Backend, job: ResourceId, path: str, selection: LogSelection) -> StreamParts:
    """The output as it grows: one file, or both streams merged, until the job has ended."""
    if path:
        yield from output_file_commands.stream_parts(backend, FileRef(job, path), selection.of)
        return
    log, files = MergedLog(), [FileRef(job, name) for name in FILES]
    for batch in event_batches(backend, job, files=files):
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
            messages.append(connection_message(event).text)
        elif isinstance(event, FailureFound):
            messages += [event.error.sentence, *event.error.hints]
    yield from (LogOutput(selection.lines_of(chunk)) for chunk in log.advance())
    yield from map(Message, dict.fromkeys(messages))
