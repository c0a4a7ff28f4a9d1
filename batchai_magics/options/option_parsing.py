"""Splits a line into words like a shell and parses the words into option values."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, NoReturn

from batchai_magics.errors import BatchAIError, UsageError, did_you_mean, quoted
from batchai_magics.options.option import Option, ValueKind

_BRACES = re.compile(r"\{\{|\}\}|\{(?P<name>[^{}]*)\}|[{}]")
_UNENCODABLE = re.compile(r"[\0\ud800-\udfff]")


def split_line(line: str, names: Mapping[str, object], *, literal: Collection[str] = ()) -> list[str]:
    """Split a line into words and replace `{name}` in each.

    Args:
        line: The line, in shell syntax.
        names: The values that `{name}` refers to. A value never becomes more than one word.
        literal: Options whose values keep their braces, as JMESPath queries need them.

    Raises:
        UsageError: A quote is not closed, or a name does not exist.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"the line cannot be split into words: {error}", hint="close the quotes") from None
    return [
        word if previous in literal or word.partition("=")[0] in literal else expand(word, names)
        for previous, word in zip([None, *words], words, strict=False)
    ]


def expand(text: str, names: Mapping[str, object], *, source: str = "on the line") -> str:
    """Replace `{name}` in a text; `{{` and `}}` are braces. UsageError for an unknown name."""
    return _BRACES.sub(lambda match: _replacement(match, names, source), text)


def names_in(text: str) -> list[str]:
    """The names that `expand` replaces in a text."""
    names = (match["name"] for match in _BRACES.finditer(text))
    return list(dict.fromkeys(filter(None, names)))


def parse_options(
    options: Sequence[Option],
    words: Sequence[str],
    *,
    make_error: Callable[[str], BatchAIError],
    allow_abbreviations: bool = False,
) -> tuple[argparse.Namespace, list[str]]:
    """Parse words into option values.

    Args:
        options: The options that may occur.
        words: The words of the line.
        make_error: Turns a message such as `argument --nodes: expected one argument` into the error to raise.
        allow_abbreviations: Accept unambiguous prefixes of option names.

    Returns:
        The values by option name, and the words that belong to no option. Options with several values or
        repeatable ones give lists, switches booleans, missing ones their default.
    """
    for word in words:
        if _UNENCODABLE.search(word):
            raise make_error(f"{quoted(word)} holds a character that no file and no name can have")
    try:
        return _parser(tuple(options), allow_abbreviations).parse_known_args(list(words))
    except _ParserError as error:
        raise make_error(str(error)) from None


def join_dashed_values(words: Sequence[str], options: Sequence[Option]) -> list[str]:
    """Join `--args --verbose` to `--args=--verbose`: a value may start with a dash unless it is an option."""
    flags = _long_flags(options)
    one_value = _long_flags(
        option for option in options if option.value_kind in (ValueKind.TEXT, ValueKind.NUMBER)
    )
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in one_value and word.split("=")[0] not in flags:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def missing_value_hint(flag: str, following: Sequence[str], help_hint: str) -> str:
    """How to give an option a value that looks like an option itself, the first of `following`."""
    if not following:
        return help_hint
    return f"Write {shlex.quote(f'{flag}={following[0]}')} if that is its value; {help_hint}"


def _long_flags(options: Iterable[Option]) -> set[str]:
    return {flag for option in options for flag in option.flags if flag.startswith("--")}


class _ParserError(Exception):
    """What argparse says is wrong with a line."""


class _Parser(argparse.ArgumentParser):
    """argparse that raises an error instead of exiting."""

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Argparse takes `--` as a missing value and gives an empty list for text, so it is rejected here."""
        if action.option_strings and "--" in arg_strings:
            self.error(f"argument {'/'.join(action.option_strings)}: '--' is not a value")
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        raise _ParserError(message)


@lru_cache(maxsize=64)
def _parser(options: tuple[Option, ...], has_prefixes: bool) -> _Parser:
    """The parser of a table of options, which is created once."""
    parser = _Parser(add_help=False, allow_abbrev=has_prefixes)
    for option in options:
        _add(parser, option)
    return parser


def _add(parser: _Parser, option: Option) -> None:
    if option.value_kind is ValueKind.NOTHING:
        parser.add_argument(*option.flags, dest=option.name, action="store_true")
        return
    read: Callable[[str], Any] = str
    if option.value_kind is ValueKind.NUMBER:
        read = partial(_integer, least=option.minimum)
    elif option.choices:
        read = partial(_one_of, choices=option.choices)
    settings: dict[str, Any] = {"default": option.default, "type": read}
    if option.is_positional:
        nargs = "*" if option.value_kind is ValueKind.MANY else "?"
        parser.add_argument(option.name, nargs=nargs, metavar=option.flags[0], **settings)
        return
    if option.value_kind is ValueKind.MANY:
        settings |= {"nargs": "+", "action": "extend"}
    if option.is_repeatable:
        settings |= {"action": "append"}
    parser.add_argument(*option.flags, dest=option.name, **settings)


def _integer(text: str, *, least: int | None) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}") from None
    if least is not None and number < least:
        raise argparse.ArgumentTypeError(f"expected {least} or more, got {number}")
    return number


def _one_of(text: str, *, choices: Collection[str]) -> str:
    """The matching choice; case-insensitive."""
    choice = next((choice for choice in choices if choice.lower() == text.lower()), None)
    if choice is None:
        guess = did_you_mean(text, choices)
        raise argparse.ArgumentTypeError(
            f"{text!r} is not one of {', '.join(choices)}" + (f". {guess}" if guess else "")
        )
    return choice


def relative_path(path: str, option: str, *, root: str = "output directory") -> str:
    """Normalize a path relative to `root`, empty for the root itself; UsageError if it leads outside."""
    pure = PurePosixPath(path.replace("\\", "/"))
    is_out = pure.is_absolute() or ".." in pure.parts or PureWindowsPath(path).drive or "\0" in path
    if is_out:
        hint = f"Give a path below the {root}, without '..' and not beginning with '/'."
        raise UsageError(f"{option}: {path} is outside the {root}", hint=hint)
    return "" if str(pure) == "." else str(pure)


def _replacement(match: re.Match[str], names: Mapping[str, object], source: str) -> str:
    text, name = match.group(), match.group("name")
    if text in ("{{", "}}"):
        return text[0]
    if name is None or not name.isidentifier():
        raise UsageError(f"{text!r} {source} is not a variable name", hint="write {{ and }} for braces")
    if name not in names:
        hint = did_you_mean(name, names) or "define it in a cell first, or write {{ and }} for braces"
        raise UsageError(f"{{{name}}} {source}: there is no variable {name}", hint=hint)
    value = names[name]
    if not isinstance(value, (str, int, float)):
        kind = type(value).__name__
        raise UsageError(f"{{{name}}} {source} is of type {kind}; only text and numbers can be inserted")
    return str(value)
