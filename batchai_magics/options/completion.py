"""What may stand at the cursor: fixed words, and a kind of live name. Pure."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from batchai_magics.options.option import Live, Option, Takes


@dataclass(frozen=True)
class Expected:
    """What fits: `words`, and names of the kind `live`; `given` is what the line says so far.

    `old` are words of 2017, for those who have begun to write one.
    """

    words: tuple[str, ...] = ()
    live: Live = Live.NOTHING
    given: Namespace = field(default_factory=Namespace)
    old: tuple[str, ...] = ()


def expected_after(words: Sequence[str], options: Sequence[Option]) -> Expected:
    """What may follow these words of a line that has these options."""
    given = _given(words, options)
    wanted = _wanted(words, options)
    if wanted is None:
        return Expected(_flags_left(words, options), given=given)
    is_due = bool(words) and words[-1] in wanted.flags
    flags = () if is_due else _flags_left(words, options)
    return Expected((*wanted.choices, *flags), wanted.completes, given)


def split_at_cursor(text: str) -> tuple[list[str], str] | None:
    """The whole words before the cursor and the word being written; None inside quotes."""
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    if not text or text[-1].isspace():
        return words, ""
    if not words or not text.endswith(words[-1]):
        return None
    return words[:-1], words[-1]


def _wanted(words: Sequence[str], options: Sequence[Option]) -> Option | None:
    """The option, or the positional word, whose value may come next."""
    positional = next((option for option in options if option.is_positional), None)
    flagged = _last_flagged(words, options)
    if flagged and _takes_more(flagged, is_first=words[-1] in flagged.flags):
        return flagged
    return positional if positional and _takes_more(positional, is_first=not words) else None


def _last_flagged(words: Sequence[str], options: Sequence[Option]) -> Option | None:
    """The option whose flag stands last among the words."""
    by_flag = {flag: option for option in options for flag in option.flags if not option.is_positional}
    return next((by_flag[word] for word in reversed(words) if word in by_flag), None)


def _takes_more(option: Option, *, is_first: bool) -> bool:
    return option.takes is Takes.SOME or (is_first and option.takes is not Takes.NOTHING)


def _flags_left(words: Sequence[str], options: Sequence[Option]) -> tuple[str, ...]:
    """The long flags that the line does not have yet."""
    left = [
        option for option in options if not option.is_positional and not set(option.flags).intersection(words)
    ]
    return tuple(option.flags[0] for option in left)


def _given(words: Sequence[str], options: Sequence[Option]) -> Namespace:
    """What the line says so far, as parsed arguments; what it does not say is None."""
    values: dict[str, str | None] = {"job": None, "subscription": None}
    for option in options:
        values[option.name] = None
        for word, value in pairwise(words):
            if word in option.flags and option.takes is Takes.TEXT:
                values[option.name] = value
    return Namespace(**values)
