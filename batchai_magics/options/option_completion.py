"""Completion candidates for a line with options: fixed words and kinds of live names. Pure."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from batchai_magics.options.option import NameKind, Option, ValueKind


@dataclass(frozen=True)
class Expected:
    """The candidates at the cursor: `words`, and names of the kind `live`.

    `arguments` are those parsed from the line so far; `legacy_words` are spellings of 2017, offered once one
    is started.
    """

    words: tuple[str, ...] = ()
    live: NameKind = NameKind.NOTHING
    arguments: Namespace = field(default_factory=Namespace)
    legacy_words: tuple[str, ...] = ()


def candidates_after(words: Sequence[str], options: Sequence[Option]) -> Expected:
    """The candidates after these words of a line with these options."""
    given = _arguments_so_far(words, options)
    wanted = _option_at_cursor(words, options)
    if wanted is None:
        return Expected(_flags_left(words, options), arguments=given)
    is_due = bool(words) and words[-1] in wanted.flags
    flags = () if is_due else _flags_left(words, options)
    return Expected((*wanted.choices, *flags), wanted.completes, given)


def split_at_cursor(text: str) -> tuple[list[str], str] | None:
    """Split the text before the cursor into complete words and the word being typed; None inside quotes."""
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    if not text or text[-1].isspace():
        return words, ""
    if not words or not text.endswith(words[-1]):
        return None
    return words[:-1], words[-1]


def _option_at_cursor(words: Sequence[str], options: Sequence[Option]) -> Option | None:
    """The option or positional argument whose value may come next."""
    positional = next((option for option in options if option.is_positional), None)
    flagged = _last_flagged(words, options)
    if flagged and _takes_more(flagged, is_first=words[-1] in flagged.flags):
        return flagged
    return positional if positional and _takes_more(positional, is_first=not words) else None


def _last_flagged(words: Sequence[str], options: Sequence[Option]) -> Option | None:
    """The option whose flag is the last one on the line."""
    by_flag = {flag: option for option in options for flag in option.flags if not option.is_positional}
    return next((by_flag[word] for word in reversed(words) if word in by_flag), None)


def _takes_more(option: Option, *, is_first: bool) -> bool:
    return option.value_kind is ValueKind.MANY or (is_first and option.value_kind is not ValueKind.NOTHING)


def _flags_left(words: Sequence[str], options: Sequence[Option]) -> tuple[str, ...]:
    """The long flags that are not on the line yet."""
    left = [
        option for option in options if not option.is_positional and not set(option.flags).intersection(words)
    ]
    return tuple(option.flags[0] for option in left)


def _arguments_so_far(words: Sequence[str], options: Sequence[Option]) -> Namespace:
    """The arguments on the line so far; None for missing ones."""
    values: dict[str, str | None] = {"job": None, "subscription": None}
    for option in options:
        values[option.name] = None
        for word, value in pairwise(words):
            if word in option.flags and option.value_kind is ValueKind.TEXT:
                values[option.name] = value
    return Namespace(**values)
