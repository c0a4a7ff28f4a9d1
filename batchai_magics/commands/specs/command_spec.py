"""The spec of a command: its words, its options, and the name of its handler."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from batchai_magics.options.option import Option

OUTPUTS = ("json", "jsonc", "none", "table", "tsv", "yaml")
PROGRAM = "batchai"


@dataclass(frozen=True)
class CommandSpec:
    """One command. `handler` is `module:function` below `commands`, imported when the command runs.

    `preview` is the same for a function that returns what the command would do, to show before confirmation.
    """

    words: str
    summary: str
    handler: str
    options: tuple[Option, ...] = ()
    is_confirmed: bool = False  # asks for confirmation
    outputs: tuple[str, ...] = OUTPUTS
    preview: str = ""
    is_hidden: bool = False  # from help: it is accepted because lines of `az` have it, and does nothing
    takes_backend_options: bool = False  # besides `options`, those that backends declare

    @property
    def parts(self) -> tuple[str, ...]:
        """The words of the command, split."""
        return tuple(self.words.split())

    def load(self) -> Callable[..., Any]:
        """Imports the handler, which takes a Context and the parsed arguments."""
        return _import_function(self.handler)

    def load_preview(self) -> Callable[..., Any] | None:
        """Imports the preview function, called with the same arguments; None for a command without one."""
        return _import_function(self.preview) if self.preview else None


def _import_function(place: str) -> Callable[..., Any]:
    module, name = place.split(":")
    function: Callable[..., Any] = getattr(importlib.import_module(f"batchai_magics.commands.{module}"), name)
    return function


def command_path(words: Sequence[str], commands: Iterable[CommandSpec]) -> tuple[str, ...]:
    """The leading words that form the path of a group or command: `job show` of `job show -n x`."""
    known = {command.parts[:count] for command in commands for count in range(len(command.parts) + 1)}
    count = 0
    while count < len(words) and tuple(words[: count + 1]) in known:
        count += 1
    return tuple(words[:count])


def subcommands(path: Sequence[str], commands: Iterable[CommandSpec]) -> tuple[str, ...]:
    """The next words of all commands below `path`, in the order of the table."""
    depth = len(path)
    inside = [c.parts for c in commands if c.parts[:depth] == tuple(path) and len(c.parts) > depth]
    return tuple(dict.fromkeys(parts[depth] for parts in inside))
