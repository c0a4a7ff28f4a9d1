"""The help of groups and commands, laid out as `az` lays it out, with lines to try."""

from __future__ import annotations

from collections.abc import Sequence

from batchai_magics.commands.parsing.catalog import COMMANDS, GROUPS
from batchai_magics.commands.parsing.examples import EXAMPLES
from batchai_magics.commands.parsing.shared_options import options_of
from batchai_magics.commands.parsing.tree import PROGRAM, Command, below
from batchai_magics.options.help import Text, option_sections, section


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
    parts = [section("Subgroups:", groups), section("Commands:", commands)]
    return Text("\n".join([head, *filter(None, parts)]).rstrip())


def command_help(command: Command) -> Text:
    """What a command does and takes."""
    head = f"Command\n    {PROGRAM} {command.words} : {command.summary}\n"
    return Text("\n".join([head, *option_sections(options_of(command)), _examples(command)]).rstrip())


def _examples(command: Command) -> str:
    shown = EXAMPLES.get(command.words, {})
    lines = [f"    {what}\n        {PROGRAM} {command.words} {rest}\n" for what, rest in shown.items()]
    return "\n".join(["Examples", *lines]) if lines else ""
