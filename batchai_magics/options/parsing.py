"""The words of a line become the values of its options."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, NoReturn

from batchai_magics.errors import BatchAIError, UsageError, did_you_mean
from batchai_magics.options.option import Option, Takes


def parse_options(
    options: Sequence[Option], words: Sequence[str], *, refuse: Callable[[str], BatchAIError]
) -> tuple[argparse.Namespace, list[str]]:
    """The values by the options' names, and the words that are no option's.

    Options that take several values, or may be repeated, give lists, switches booleans, what is not given its
    default. Raises what `refuse` makes of a complaint: `argument --nodes: expected one argument`.
    """
    parser = _Parser(refuse)
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

    def __init__(self, refuse: Callable[[str], BatchAIError]) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self._refuse = refuse

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
