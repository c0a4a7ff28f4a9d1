"""What a command is: words, options, and the name of the function that carries it out."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from batchai_magics.options.option import Option

OUTPUTS = ("json", "jsonc", "none", "table", "tsv", "yaml")
PROGRAM = "batchai"


@dataclass(frozen=True)
class Command:
    """One command. `handler` is `module:function` below `commands`, imported when the command runs."""

    words: str
    summary: str
    handler: str
    options: tuple[Option, ...] = ()
    is_confirmed: bool = False  # asks before it does what cannot be undone
    outputs: tuple[str, ...] = OUTPUTS
    preview: str = (
        ""  # `module:function` below `commands` that gives what it would do, to be told before it asks
    )

    @property
    def parts(self) -> tuple[str, ...]:
        """Its words, one by one."""
        return tuple(self.words.split())

    def load(self) -> Callable[..., Any]:
        """The handler, called with a Context and the parsed arguments."""
        return _function(self.handler)

    def load_preview(self) -> Callable[..., Any] | None:
        """The preview, called likewise; None where there is none."""
        return _function(self.preview) if self.preview else None


def _function(place: str) -> Callable[..., Any]:
    module, name = place.split(":")
    function: Callable[..., Any] = getattr(importlib.import_module(f"batchai_magics.commands.{module}"), name)
    return function


def leading(words: Sequence[str], commands: Iterable[Command]) -> tuple[str, ...]:
    """The leading words that name a group or a command: `job show` of `job show -n x`."""
    known = {command.parts[:count] for command in commands for count in range(len(command.parts) + 1)}
    count = 0
    while count < len(words) and tuple(words[: count + 1]) in known:
        count += 1
    return tuple(words[:count])


def below(path: Sequence[str], commands: Iterable[Command]) -> tuple[str, ...]:
    """The words that may follow a group's, in the order of the table."""
    depth = len(path)
    inside = [c.parts for c in commands if c.parts[:depth] == tuple(path) and len(c.parts) > depth]
    return tuple(dict.fromkeys(parts[depth] for parts in inside))
