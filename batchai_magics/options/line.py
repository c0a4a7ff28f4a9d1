"""A line as it is typed: split into words as a shell does, `{name}` replaced by a variable's value."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping

from batchai_magics.errors import UsageError, did_you_mean

_BRACES = re.compile(r"\{\{|\}\}|\{(?P<name>[^{}]*)\}|[{}]")


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


def expand(word: str, names: Mapping[str, object]) -> str:
    """The word with `{name}` replaced, `{{` and `}}` as braces; UsageError for a name that is not there."""
    return _BRACES.sub(lambda match: _replacement(match, names), word)


def _replacement(match: re.Match[str], names: Mapping[str, object]) -> str:
    text, name = match.group(), match.group("name")
    if text in ("{{", "}}"):
        return text[0]
    if name is None or not name.isidentifier():
        raise UsageError(f"{text!r} on the line is no variable's name", hint="write {{ and }} for braces")
    if name not in names:
        hint = did_you_mean(name, names) or "define it in a cell first, or write {{ and }} for braces"
        raise UsageError(f"{{{name}}} on the line: there is no variable {name}", hint=hint)
    value = names[name]
    if not isinstance(value, (str, int, float)):
        what = f"{{{name}}} on the line is of type {type(value).__name__}"
        raise UsageError(f"{what}; only text and numbers can stand there")
    return str(value)
