"""Variables by name, and the references to them in texts: `$NAME` and `${NAME}`. Pure.

The time to read a text grows with its length alone, whatever the number of variables.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

from batchai_magics.launch.references import joined

Value = TypeVar("Value")
_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


class Variables(dict[str, Value]):
    """Values by the name of their variable; a reference without braces is to the longest name that fits."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        super().__init__(values)
        self._lengths = sorted({len(name) for name in values})

    def __setitem__(self, name: str, value: Value) -> None:
        super().__setitem__(name, value)
        place = bisect.bisect_left(self._lengths, len(name))
        if self._lengths[place : place + 1] != [len(name)]:
            self._lengths.insert(place, len(name))

    def pieces(self, text: str) -> Iterator[tuple[str, str]]:
        """Split a text at references to known variables: pairs of a literal and the name behind it."""
        begin = 0
        for found in _REFERENCE.finditer(text):
            braced, bare = found.groups()
            name = (braced if braced in self else "") if braced else self._longest(bare)
            if name:
                yield text[begin : found.start()], name
                begin = found.end() if braced else found.start() + 1 + len(name)
        yield text[begin:], ""

    def _longest(self, text: str) -> str:
        """The longest known name that the text begins with; empty if there is none."""
        fitting = self._lengths[: bisect.bisect_right(self._lengths, len(text))]
        return next((text[:length] for length in reversed(fitting) if text[:length] in self), "")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Expand `$NAME` and `${NAME}` of known variables; others stay unchanged."""
    if "$" not in text or not variables:
        return text
    known = variables if isinstance(variables, Variables) else Variables(variables)
    return joined(
        part for text, name in known.pieces(text) for part in (text, known[name] if name else "") if part
    )
