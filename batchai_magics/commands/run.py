"""A parsed line is carried out: handler in, value out."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from typing import Any

from batchai_magics.commands.context import Context
from batchai_magics.commands.output.notes import Noted
from batchai_magics.commands.output.result import Result
from batchai_magics.commands.output.stream import Parts, Said, Stream
from batchai_magics.commands.output.work import Work
from batchai_magics.commands.parsing.parse import Invocation
from batchai_magics.errors import BatchAIError, SpecError

CONFIRMATION_MISSING = "Unable to prompt for confirmation as no tty available. Use --yes."
_REFUSED = 1  # in `az`, 2 means that the line itself is ill-formed


@dataclass(frozen=True)
class Pending:
    """A command whose work is still to be carried out, by who can show how it goes on."""

    work: Work
    query: str | None
    notes: tuple[str, ...]

    def result(self, value: Any) -> Result:
        """The command's result, once the work has come to `value`; `notes` were told before it."""
        return _result(value, self.query, ())


def run(invocation: Invocation, context: Context) -> Result | Stream | Pending:
    """What the command gives. With several `--ids`, a list with what it gives for each."""
    handler, arguments = invocation.command.load(), invocation.arguments
    notes = invocation.notes(context.settings)
    try:
        values = [handler(context, one) for one in _one_by_one(arguments)]
    except BatchAIError as error:
        error.hint = "\n".join(filter(None, (error.hint, *notes)))
        if isinstance(error, SpecError):
            error.exit_code = _REFUSED
        raise
    if isinstance(values[0], Stream):
        return Stream(_joined(notes, values), values[-1].farewell)
    if isinstance(values[0], Work):
        return Pending(values[0], arguments.query, notes)
    return _result(values[0] if len(values) == 1 else _all_of(values), arguments.query, notes)


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
