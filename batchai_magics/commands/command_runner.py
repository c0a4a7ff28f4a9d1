"""Runs a parsed command: calls its handler and wraps the value that it returns."""

from __future__ import annotations

import shlex
from argparse import Namespace
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from batchai_magics.commands.output.command_progress import (
    Message,
    Operation,
    Stream,
    StreamParts,
    json_lines,
)
from batchai_magics.commands.output.command_result import (
    LiveResult,
    Result,
    SelectedJobs,
    ValueWithNotes,
    check_query,
)
from batchai_magics.errors import BatchAIError, SpecError, translate_file_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batchai_magics.commands.command_context import Context
    from batchai_magics.commands.parsing.command_parser import Invocation


CONFIRMATION_MISSING = "Unable to prompt for confirmation as no tty available. Use --yes."
_CLUSTER_COMMANDS = ("cluster show", "cluster create", "cluster resize", "cluster auto-scale")
_JOB_LISTS = ("job list", "watch")
_REFUSED_EXIT_CODE = 1  # in `az`, 2 means that the line itself is ill-formed


@dataclass(frozen=True)
class PendingCommand:
    """A command whose operation has yet to run; the caller runs it and shows its progress."""

    operation: Operation
    query: str | None
    notes: tuple[str, ...]

    def result(self, value: Any) -> Result:
        """The command's result once the operation has returned `value`; `notes` were printed before."""
        return _result([value], self.query)


def run(invocation: Invocation, context: Context) -> Result | Stream | PendingCommand:
    """Runs the command; with several `--ids`, once per id, and the result is a list."""
    handler = invocation.command.load()
    arguments = Namespace(**vars(invocation.arguments), is_az=invocation.is_az)
    translation = invocation.notes(context.settings)
    notes = translation if invocation.is_az else ()
    check_query(arguments.query)
    ids = getattr(arguments, "ids", None)
    lines = [Namespace(**{**vars(arguments), "ids": [id]}) for id in ids] if ids else [arguments]
    try:
        with translate_file_errors():
            values = [handler(context, line) for line in lines]
            context.reconcile()  # not before: a command that ends queued jobs starts none of them
    except BatchAIError as error:
        error.hint = "\n".join(filter(None, (error.hint, *translation)))
        if isinstance(error, SpecError):
            error.exit_code = _REFUSED_EXIT_CODE
        raise
    if isinstance(values[0], Stream):
        parts = _joined(notes, values)
        is_json = arguments.output == "json" and not arguments.is_az
        stream: Stream = values[-1]
        return replace(stream, parts=json_lines(parts) if is_json else parts)
    if isinstance(values[0], Operation):
        return PendingCommand(values[0], arguments.query, notes)
    is_summary = invocation.command.prints_summaries and not invocation.is_az
    return _result(values, arguments.query, notes, is_summary=is_summary)


def confirmation_preview(invocation: Invocation, context: Context) -> str:
    """The text to show before asking for confirmation; empty for a command without a preview."""
    preview = invocation.command.load_preview()
    if preview is None:
        return ""
    return f"This would be removed:\n{preview(context, invocation.arguments).to_table().to_text()}"


def _result(
    values: Sequence[Any], query: str | None, notes: tuple[str, ...] = (), *, is_summary: bool = False
) -> Result:
    """The result of a handler, or the list of results for several ids; the values' notes follow `notes`."""
    results: list[Any] = []
    for value in values:
        has_notes = isinstance(value, ValueWithNotes)
        notes = (*notes, *value.notes) if has_notes else notes
        results.append(value.value if has_notes else value)
    result = results[0] if len(results) == 1 else [item for item in results if item is not None] or None
    return Result(result, query, notes, is_summary=is_summary)


def _joined(notes: tuple[str, ...], streams: list[Stream]) -> StreamParts:
    yield from map(Message, notes)
    for stream in streams:
        yield from stream.parts


def with_live_source(invocation: Invocation, result: Result, context: Context) -> Result:
    """Adds backend and id to the results that have a live view: job lists and clusters."""
    from batchai_magics.models.resources import Cluster

    if result.query or getattr(invocation.arguments, "top", None):
        return result
    selected = None
    if invocation.command.words in _JOB_LISTS:
        id, selected = context.experiment(invocation.arguments), _selected_jobs(invocation.arguments, result)
    elif invocation.command.words in _CLUSTER_COMMANDS and isinstance(result.value, Cluster):
        id = result.value.id
    else:
        return result
    is_summary, backend = result.is_summary, context.backend
    return LiveResult(result.value, is_summary=is_summary, backend=backend, id=id, selected=selected)


def _selected_jobs(arguments: Namespace, result: Result) -> SelectedJobs | None:
    """The jobs that `--tag` and `--where` selected; None for a list without them."""
    selections = {"--tag": getattr(arguments, "tag", None), "--where": getattr(arguments, "where", None)}
    words = [word for flag, texts in selections.items() for text in texts or () for word in (flag, text)]
    return SelectedJobs(frozenset(job.id.name for job in result.value), shlex.join(words)) if words else None
