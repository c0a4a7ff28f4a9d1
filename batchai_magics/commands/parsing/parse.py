"""The words of a command line become an Invocation, or a Text of help, or one clear UsageError."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass

from batchai_magics.commands.parsing import arguments as o
from batchai_magics.commands.parsing.catalog import COMMANDS, GROUPS
from batchai_magics.commands.parsing.dialect import modern, old_words
from batchai_magics.commands.parsing.help import command_help, group_help
from batchai_magics.commands.parsing.rows import azure, files, storage
from batchai_magics.commands.parsing.tree import PROGRAM, Command, below, leading
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError, did_you_mean
from batchai_magics.options.option import Option
from batchai_magics.options.option_help import DisplayText
from batchai_magics.options.option_parsing import parse_options

_HELP = frozenset(o.HELP.flags)
_AZ = "az"
_PROGRAMS = (_AZ, PROGRAM)
_NAMING = ("name", "job", "cluster")  # the options that say what a command is about
_BESIDE_BATCHAI = (*azure.COMMANDS, *storage.COMMANDS, *files.COMMANDS)
AZ_WORDS = (PROGRAM, *below((), _BESIDE_BATCHAI))  # the first words that `%az` knows


@dataclass(frozen=True)
class Invocation:
    """A command and what it was given."""

    command: Command
    arguments: Namespace
    changed: tuple[str, ...] = ()  # words of 2017, and what they were read as

    @property
    def is_to_confirm(self) -> bool:
        """Whether somebody has to say yes before it runs."""
        return self.command.is_confirmed and not self.arguments.yes

    def notes(self, settings: Settings) -> tuple[str, ...]:
        """What to say about a line of 2017: how it was read, and where it takes place."""
        if not self.changed:
            return ()
        places = ((name, getattr(self.arguments, name, None)) for name in ("workspace", "experiment"))
        where = ", ".join(f"{name} {value or getattr(settings, name)}" for name, value in places)
        return (f"Words of 2017: {', '.join(self.changed)}; {where}.",)


def parse(words: Sequence[str]) -> Invocation | DisplayText:
    """What the words ask for; `-h` and a group without a command give help.

    A line that was pasted with its program is taken too: `az batchai job list`, `batchai job list`.
    """
    if words and words[0] in _PROGRAMS:
        return _pasted(*words)
    reading = modern(words)
    path = leading(reading.words, COMMANDS)
    rest = list(reading.words[len(path) :])
    command = next((command for command in COMMANDS if command.parts == path), None)
    if command is None:
        return _help_of_group(path, rest)
    if _HELP.intersection(rest):
        return command_help(command)
    return Invocation(command, arguments_of(command, rest), reading.changed)


def _pasted(program: str, *words: str) -> Invocation | DisplayText:
    rest = of_az(words) if program == _AZ else words
    return rest if isinstance(rest, DisplayText) else parse(rest)


def _help_of_group(path: Sequence[str], rest: Sequence[str]) -> DisplayText:
    """The help of a group that is named alone; raises UsageError for a word that is none of its commands."""
    if rest and not _HELP.intersection(rest):
        raise _unknown_word(path, rest[0])
    return group_help(path)


def arguments_of(command: Command, words: Sequence[str]) -> Namespace:
    """The values of a command's options."""
    program, options = f"{PROGRAM} {command.words}", o.options_of(command)
    arguments, extra = parse_options(
        options, words, make_error=lambda message: _wrong(program, message), allow_abbreviations=True
    )
    if extra:
        raise _unknown_option(program, extra[0], options)
    missing = [
        option for option in options if option.is_required and getattr(arguments, option.name) in (None, [])
    ]
    if missing and not getattr(arguments, "ids", None):
        names = ", ".join("/".join(option.flags) for option in missing)
        raise _wrong(program, f"the following arguments are required: {names}")
    return arguments


def _wrong(program: str, message: str, guess: str = "") -> UsageError:
    hint = f"{guess} See '{program} --help'.".lstrip()
    return UsageError(f"{program}: {message}", hint=hint)


def _unknown_word(path: Sequence[str], word: str) -> UsageError:
    program = " ".join((PROGRAM, *path))
    known = below(path, COMMANDS)
    if word.startswith("-"):
        return _wrong(program, f"a command is missing before {word}", f"Commands: {', '.join(known)}.")
    guess = did_you_mean(word, (*known, *old_words(path))) or f"Commands: {', '.join(known)}."
    return _wrong(program, f"'{word}' is not in the '{program}' command group.", guess)


def _unknown_option(program: str, word: str, options: Sequence[Option]) -> UsageError:
    if word.startswith("-"):
        flags = [flag for option in options for flag in option.flags if flag.startswith("--")]
        guess = did_you_mean(word.split("=")[0], flags)
    else:
        named = next((option for option in options if option.name in _NAMING), None)
        guess = f'did you mean "{named.flags[-1]} {word}"?' if named else ""
    return _wrong(program, f"unrecognized arguments: {word}", guess)


def of_az(words: Sequence[str]) -> list[str] | DisplayText:
    """The words for the one command tree, or the list of what `%az` takes."""
    if not words or words[0] in ("-h", "--help"):
        return _az_help()
    first, *rest = words
    if first == PROGRAM:
        return rest
    if first in AZ_WORDS:
        return list(words)
    known = did_you_mean(first, AZ_WORDS) or f"It takes: {', '.join(AZ_WORDS)}."
    raise UsageError(f"az: '{first}' is not in the 'az' command group.", hint=known)


def _az_help() -> DisplayText:
    width = max(map(len, AZ_WORDS))
    summaries = {command.words: command.summary for command in COMMANDS}
    meanings = {PROGRAM: GROUPS[""], **summaries, **{name: text for name, text in GROUPS.items() if name}}
    rows = "\n".join(f"    {word.ljust(width)} : {meanings[word]}" for word in AZ_WORDS)
    return DisplayText(f"Group\n    az : What tutorials use of Azure's command line.\n\nSubgroups:\n{rows}")
