"""A line is split into words as a shell does, and the words become the values of its options."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, NoReturn

from batchai_magics.errors import BatchAIError, UsageError, did_you_mean, quoted
from batchai_magics.options.option import Option, Takes

_BRACES = re.compile(r"\{\{|\}\}|\{(?P<name>[^{}]*)\}|[{}]")

_UNWRITABLE = re.compile(r"[\0\ud800-\udfff]")


def split(line: str, names: Mapping[str, object], *, literal: Collection[str] = ()) -> list[str]:
    """The words of the line. A value that is put in never becomes more than one word.

    The values of the options in `literal` keep their braces, as those of a JMESPath query have to.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"the line cannot be split into words: {error}", hint="close the quotes") from None
    before = [None, *words]
    return [
        word if last in literal or word.partition("=")[0] in literal else expand(word, names)
        for last, word in zip(before, words, strict=False)
    ]


def expand(text: str, names: Mapping[str, object], *, place: str = "on the line") -> str:
    """The text with `{name}` replaced, `{{` and `}}` as braces; UsageError for a name that is not there."""
    return _BRACES.sub(lambda match: _replacement(match, names, place), text)


def parse_options(
    options: Sequence[Option],
    words: Sequence[str],
    *,
    refuse: Callable[[str], BatchAIError],
    has_prefixes: bool = False,
) -> tuple[argparse.Namespace, list[str]]:
    """The values by the options' names, and the words that are no option's.

    Options that take several values, or may be repeated, give lists, switches booleans, what is not given its
    default. With `has_prefixes`, the beginning of an option's name will do that no other has. Raises what
    `refuse` makes of a complaint: `argument --nodes: expected one argument`.
    """
    for word in words:
        if _UNWRITABLE.search(word):
            raise refuse(f"{quoted(word)} holds a character that no file and no name can have")
    parser = _Parser(refuse, has_prefixes=has_prefixes)
    for option in options:
        _add(parser, option)
    return parser.parse_known_args(list(words))


def with_dashed_values(words: Sequence[str], options: Sequence[Option]) -> list[str]:
    """`--args --verbose` as `--args=--verbose`: a value may begin with a dash, unless it names an option."""
    flags = _long_flags(options)
    one_value = _long_flags(option for option in options if option.takes in (Takes.TEXT, Takes.NUMBER))
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in one_value and word.split("=")[0] not in flags:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _long_flags(options: Iterable[Option]) -> set[str]:
    return {flag for option in options for flag in option.flags if flag.startswith("--")}


class _Parser(argparse.ArgumentParser):
    """argparse that raises an error of ours in place of ending the process."""

    def __init__(self, refuse: Callable[[str], BatchAIError], *, has_prefixes: bool) -> None:
        super().__init__(add_help=False, allow_abbrev=has_prefixes)
        self._refuse = refuse

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """The values of an action. Argparse takes `--` for none, and gives an empty list for a text."""
        if action.option_strings and "--" in arg_strings:
            self.error(f"argument {'/'.join(action.option_strings)}: '--' is no value")
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        raise self._refuse(message)


def _add(parser: _Parser, option: Option) -> None:
    if option.takes is Takes.NOTHING:
        parser.add_argument(*option.flags, dest=option.name, action="store_true")
        return
    settings: dict[str, Any] = {"default": option.default, "type": _reader(option)}
    if option.is_positional:
        nargs = "*" if option.takes is Takes.SOME else "?"
        parser.add_argument(option.name, nargs=nargs, metavar=option.flags[0], **settings)
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
        return partial(_one_of, choices=option.choices)
    return str


def _whole_number(text: str, *, least: int | None) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}") from None
    if least is not None and number < least:
        raise argparse.ArgumentTypeError(f"expected {least} or more, got {number}")
    return number


def _one_of(text: str, *, choices: Collection[str]) -> str:
    """The choice that is meant, written in whatever case."""
    choice = next((choice for choice in choices if choice.lower() == text.lower()), None)
    if choice is None:
        guess = did_you_mean(text, choices)
        raise argparse.ArgumentTypeError(
            f"{text!r} is none of {', '.join(choices)}" + (f"; {guess}" if guess else "")
        )
    return choice


def relative(path: str, option: str, *, place: str = "output directory") -> str:
    """The path without needless parts, empty for the place itself; refused if it leads out of it."""
    pure = PurePosixPath(path.replace("\\", "/"))
    is_out = pure.is_absolute() or ".." in pure.parts or PureWindowsPath(path).drive or "\0" in path
    if is_out:
        hint = f"Give a path below the {place}, without '..' and not beginning with '/'."
        raise UsageError(f"{option}: {path} leads out of the {place}", hint=hint)
    return "" if str(pure) == "." else str(pure)


def _replacement(match: re.Match[str], names: Mapping[str, object], place: str) -> str:
    text, name = match.group(), match.group("name")
    if text in ("{{", "}}"):
        return text[0]
    if name is None or not name.isidentifier():
        raise UsageError(f"{text!r} {place} is no variable's name", hint="write {{ and }} for braces")
    if name not in names:
        hint = did_you_mean(name, names) or "define it in a cell first, or write {{ and }} for braces"
        raise UsageError(f"{{{name}}} {place}: there is no variable {name}", hint=hint)
    value = names[name]
    if not isinstance(value, (str, int, float)):
        what = f"{{{name}}} {place} is of type {type(value).__name__}"
        raise UsageError(f"{what}; only text and numbers can stand there")
    return str(value)
