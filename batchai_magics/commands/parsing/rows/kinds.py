"""Rows and options of one kind, made once: what every resource can be asked, what storage takes."""

from __future__ import annotations

from batchai_magics.commands.parsing import arguments as o
from batchai_magics.commands.parsing.tree import Command
from batchai_magics.options.option import Live, Option

_Options = tuple[Option, ...]


def usual(words: str, *, one: _Options, several: _Options) -> tuple[Command, ...]:
    """`show`, `list` and `delete` of a kind of resource; `one` and `several` say which."""
    noun, module = words.replace("-", " "), words.replace("-", "_")
    a_noun = f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
    ending = (*one, o.IDS, o.NO_WAIT, o.YES)
    return (
        Command(f"{words} show", f"Show {a_noun}.", f"handlers.{module}:show", (*one, o.IDS)),
        Command(f"{words} list", f"List {noun}s.", f"handlers.{module}:list_all", several),
        Command(
            f"{words} delete", f"Delete {a_noun}.", f"handlers.{module}:delete", ending, is_confirmed=True
        ),
    )


def share(*flags: str) -> Option:
    """An option that names a file share."""
    return Option(flags, "Name of the file share.", is_required=True, completes=Live.SHARE)


def container(*flags: str) -> Option:
    """An option that names a blob container."""
    return Option(flags, "Name of the container.", is_required=True, completes=Live.CONTAINER)


def here(flags: tuple[str, ...], help: str, *, is_required: bool = True) -> Option:
    """An option that names a file or folder of this machine."""
    return Option(flags, help, is_required=is_required, completes=Live.PATH)


def text(flags: tuple[str, ...], help: str, *, is_required: bool = False) -> Option:
    """An option that takes any text."""
    return Option(flags, help, is_required=is_required)
