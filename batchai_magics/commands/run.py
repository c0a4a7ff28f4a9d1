"""A parsed line is carried out: handler in, value out."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from batchai_magics.commands.output.operation import Operation
from batchai_magics.commands.output.result import LiveResult, Noted, Result, check_query
from batchai_magics.commands.output.stream import Parts, Said, Stream
from batchai_magics.errors import BatchAIError, SpecError, translate_file_errors

if TYPE_CHECKING:
    from batchai_magics.commands.context import Context
    from batchai_magics.commands.parsing.parse import Invocation

CONFIRMATION_MISSING = "Unable to prompt for confirmation as no tty available. Use --yes."
_OF_CLUSTER = ("cluster show", "cluster create", "cluster resize", "cluster auto-scale")
_REFUSED = 1  # in `az`, 2 means that the line itself is ill-formed


@dataclass(frozen=True)
class Pending:
    """A command whose operation is still to be carried out, by who can show how it goes on."""

    operation: Operation
    query: str | None
    notes: tuple[str, ...]

    def result(self, value: Any) -> Result:
        """The command's result, once the operation has come to `value`; `notes` were told before it."""
        return _result(value, self.query, ())


def run(invocation: Invocation, context: Context) -> Result | Stream | Pending:
    """What the command gives. With several `--ids`, a list with what it gives for each."""
    handler, arguments = invocation.command.load(), invocation.arguments
    notes = invocation.notes(context.settings)
    check_query(arguments.query)
    try:
        with translate_file_errors():
            values = [handler(context, one) for one in _one_by_one(arguments)]
    except BatchAIError as error:
        error.hint = "\n".join(filter(None, (error.hint, *notes)))
        if isinstance(error, SpecError):
            error.exit_code = _REFUSED
        raise
    if isinstance(values[0], Stream):
        return Stream(_joined(notes, values), values[-1].farewell)
    if isinstance(values[0], Operation):
        return Pending(values[0], arguments.query, notes)
    return _result(values[0] if len(values) == 1 else _all_of(values), arguments.query, notes)


def preview(invocation: Invocation, context: Context) -> str:
    """What a command that asks would do, as text; empty where it has nothing to tell before."""
    tell = invocation.command.load_preview()
    if tell is None:
        return ""
    return f"This would be removed:\n{tell(context, invocation.arguments).to_table().to_text()}"


def _result(value: Any, query: str | None, notes: tuple[str, ...]) -> Result:
    if isinstance(value, Noted):
        return Result(value.value, query, (*notes, *value.notes))
    return Result(value, query, notes)


def _joined(notes: tuple[str, ...], streams: list[Stream]) -> Parts:
    yield from map(Said, notes)
    for stream in streams:
        yield from stream.parts


def _one_by_one(arguments: Namespace) -> list[Namespace]:
    """The arguments once for each of the `--ids`, or as they are."""
    ids = getattr(arguments, "ids", None)
    return [Namespace(**{**vars(arguments), "ids": [id]}) for id in ids] if ids else [arguments]


def _all_of(values: list[Any]) -> list[Any] | None:
    return [value for value in values if value is not None] or None


def with_place(invocation: Invocation, result: Result, context: Context) -> Result:
    """The result of `job list` and of what shows or changes a cluster with its place; others as they are."""
    from batchai_magics.models.resources import Cluster

    if result.query or getattr(invocation.arguments, "top", None):
        return result
    if invocation.command.words == "job list":
        id = context.experiment(invocation.arguments)
    elif invocation.command.words in _OF_CLUSTER and isinstance(result.value, Cluster):
        id = result.value.id
    else:
        return result
    return LiveResult(result.value, backend=context.backend, id=id)
