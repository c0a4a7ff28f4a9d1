"""The words of a command line become an Invocation, or a Text of help, or one clear UsageError."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from batchai_magics.commands.output.text import Text
from batchai_magics.commands.parsing import options as o
from batchai_magics.commands.parsing.catalog import COMMANDS
from batchai_magics.commands.parsing.dialect import modern, old_words
from batchai_magics.commands.parsing.help import command_help, group_help
from batchai_magics.commands.parsing.tree import PROGRAM, Command, Option, Takes, below, leading
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError, did_you_mean

_HELP = frozenset(o.HELP.flags)
_NAMING = ("name", "job", "cluster")  # the options that say what a command is about


@dataclass(frozen=True)
class Invocation:
    """A command and what it was given."""

    command: Command
    arguments: argparse.Namespace
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
        where = ", ".join(f"{name} {given or getattr(settings, name)}" for name, given in places)
        return (f"Words of 2017: {', '.join(self.changed)}; {where}.",)


def parse(words: Sequence[str]) -> Invocation | Text:
    """What the words ask for; `-h` and a group without a command give help."""
    reading = modern(words)
    words = reading.words
    path = leading(words, COMMANDS)
    rest = list(words[len(path) :])
    command = next((c for c in COMMANDS if c.parts == path), None)
    if command is None:
        if not rest or _HELP.intersection(rest):
            return group_help(path)
        raise _unknown_word(path, rest[0])
    if _HELP.intersection(rest):
        return command_help(command)
    return Invocation(command, parse_options(command, rest), reading.changed)


def parse_options(command: Command, words: Sequence[str]) -> argparse.Namespace:
    """The values of a command's options."""
    options = o.options_of(command)
    parser = _Parser(prog=f"{PROGRAM} {command.words}", add_help=False, allow_abbrev=False)
    for option in options:
        _add(parser, option)
    arguments, extra = parser.parse_known_args(list(words))
    if extra:
        raise _unknown_option(parser.prog, extra[0], options)
    missing = [
        option for option in options if option.is_required and getattr(arguments, option.name) in (None, [])
    ]
    if missing and not getattr(arguments, "ids", None):
        names = ", ".join("/".join(option.flags) for option in missing)
        raise _wrong(parser.prog, f"the following arguments are required: {names}")
    return arguments


class _Parser(argparse.ArgumentParser):
    """argparse without its exits."""

    def error(self, message: str) -> NoReturn:
        raise _wrong(self.prog, message)


def _add(parser: _Parser, option: Option) -> None:
    if option.takes is Takes.NOTHING:
        parser.add_argument(*option.flags, dest=option.name, action="store_true")
        return
    settings: dict[str, Any] = {"default": option.default, "type": _reader(option)}
    if option.is_positional:
        parser.add_argument(option.name, nargs="*", metavar=option.flags[0], **settings)
        return
    if option.takes is Takes.SOME:
        settings |= {"nargs": "+", "action": "extend"}
    if option.is_repeatable:
        settings |= {"action": "append"}
    parser.add_argument(*option.flags, dest=option.name, **settings)


def _reader(option: Option) -> Callable[[str], Any]:
    if option.takes is Takes.NUMBER:
        return partial(_whole_number, least=option.least)
    if option.choices:
        return lambda text: _one_of(text, option.choices)
    return str


def _whole_number(text: str, *, least: int | None) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}") from None
    if least is not None and number < least:
        raise argparse.ArgumentTypeError(f"expected {least} or more, got {number}")
    return number


def _one_of(text: str, choices: tuple[str, ...]) -> str:
    found = next((choice for choice in choices if choice.lower() == text.lower()), None)
    if found is None:
        guess = did_you_mean(text, choices)
        raise argparse.ArgumentTypeError(
            f"{text!r} is none of {', '.join(choices)}" + (f"; {guess}" if guess else "")
        )
    return found


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
