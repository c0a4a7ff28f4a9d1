"""The byte strings that tell a format: how one stands for several, and which of many occur in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from typing import Any

SHORTEST = 7
"""No literal is shorter: so many bytes cover one aligned word of four bytes, whatever their place."""

CLASSES = {
    b"#": [b"%d" % digit for digit in range(10)],
    b"^": [b"\n", b" ", b"\t", b",", b":", b";", b"|", b">", b"#", b"["],
}


def spelled_out(literal: bytes) -> Iterator[bytes]:
    """The strings that a literal stands for: `#` is any digit, `^` what stands left of a word."""
    yield from map(b"".join, product(*(CLASSES.get(bytes([char]), [bytes([char])]) for char in literal)))


def stem(literal: bytes) -> bytes:
    """The part of a literal that is the same in all strings that it stands for."""
    return literal.strip(b"#^")


class Gate:
    """Tells which of some literals may occur in a text: those whose stem does.

    All stems are sought at once, by RE2: the time that takes hardly depends on how many they are.
    """

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._stems = [stem(literal) for literal in literals]

    def open_for(self, text: bytes) -> list[int]:
        """The numbers of the literals that may occur, in ascending order."""
        numbers = set[int]()
        expression, position = self._expression, 0
        while match := expression.search(text, position):
            numbers.update(self._within[match[0]])
            position = match.start() + 1
        return sorted(numbers)

    @cached_property
    def _expression(self) -> Any:
        """Made when it is first needed, for the sake of a quick start."""
        import re2

        options = re2.Options()
        options.encoding = options.Encoding.LATIN1
        options.longest_match = True
        stems = (re.escape(text.decode()) for text in dict.fromkeys(self._stems))
        return re2.compile("|".join(stems).encode(), options)

    @cached_property
    def _within(self) -> dict[bytes, list[int]]:
        """For each stem, the literals whose stem it begins with."""
        return {
            text: [number for number, other in enumerate(self._stems) if text.startswith(other)]
            for text in self._stems
        }
