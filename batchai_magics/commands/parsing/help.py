"""Help texts, laid out as `az` lays them out."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from batchai_magics.commands.output.text import Text
from batchai_magics.commands.parsing.catalog import COMMANDS, GROUPS
from batchai_magics.commands.parsing.examples import EXAMPLES
from batchai_magics.commands.parsing.options import options_of
from batchai_magics.commands.parsing.tree import PROGRAM, Command, Option, Takes, below

_WIDTH = 100


def group_help(path: Sequence[str]) -> Text:
    """What is in a group of commands."""
    groups, commands = {}, {}
    for word in below(path, COMMANDS):
        words = " ".join((*path, word))
        if words in GROUPS:
            groups[word] = GROUPS[words]
        else:
            commands[word] = next(command.summary for command in COMMANDS if command.words == words)
    head = f"Group\n    {' '.join((PROGRAM, *path))} : {GROUPS[' '.join(path)]}\n"
    parts = [_section("Subgroups:", groups), _section("Commands:", commands)]
    return Text("\n".join([head, *filter(None, parts)]).rstrip())


def command_help(command: Command) -> Text:
    """What a command does and takes."""
    head = f"Command\n    {PROGRAM} {command.words} : {command.summary}\n"
    sections: dict[str, dict[str, str]] = {}
    for option in options_of(command):
        sections.setdefault(option.section, {})[_flags(option)] = _describe(option)
    parts = [_section(title, rows) for title, rows in sections.items()]
    return Text("\n".join([head, *parts, _examples(command)]).rstrip())


def _examples(command: Command) -> str:
    shown = EXAMPLES.get(command.words, {})
    lines = [f"    {what}\n        {PROGRAM} {command.words} {rest}\n" for what, rest in shown.items()]
    return "\n".join(["Examples", *lines]) if lines else ""


def _flags(option: Option) -> str:
    required = " [Required]" if option.is_required else ""
    return " ".join(option.flags) + required


def _describe(option: Option) -> str:
    parts = [option.help]
    if option.choices:
        parts.append(f"Allowed values: {', '.join(option.choices)}.")
    if option.default is not None and option.takes is not Takes.NOTHING:
        parts.append(f"Default: {option.default}")
    return " ".join(parts)


def _section(title: str, rows: dict[str, str]) -> str:
    if not rows:
        return ""
    width = max(map(len, rows))
    lines = [title]
    for name, text in rows.items():
        first = f"    {name.ljust(width)} : "
        lines += textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=" " * len(first))
    return "\n".join(lines) + "\n"
