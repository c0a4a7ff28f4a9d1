"""Finds which of many literal byte strings occur in a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any


def literal_stem(literal: bytes) -> bytes:
    """The part of a literal without its wildcards: `#` is any digit, `^` anything that may precede a word."""
    return literal.strip(b"#^")


class LiteralSearch:
    """Finds candidates among many literals in one RE2 search for their stems.

    The search time hardly depends on the number of literals.
    """

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._stems = [literal_stem(literal) for literal in literals]

    def candidates(self, text: bytes) -> list[int]:
        """The indices of the literals that may occur in the text, ascending."""
        numbers = set[int]()
        expression, position = self._expression, 0
        while match := expression.search(text, position):
            numbers.update(self._literals_of_stem[match[0]])
            position = match.start() + 1
        return sorted(numbers)

    @cached_property
    def _expression(self) -> Any:
        """Compiled on first use to keep imports fast."""
        import re2

        options = re2.Options()
        options.encoding = options.Encoding.LATIN1
        options.longest_match = True
        stems = (re.escape(text.decode()) for text in dict.fromkeys(self._stems))
        return re2.compile("|".join(stems).encode(), options)

    @cached_property
    def _literals_of_stem(self) -> dict[bytes, list[int]]:
        """For each stem, the indices of the literals whose stem is a prefix of it."""
        return {
            text: [number for number, other in enumerate(self._stems) if text.startswith(other)]
            for text in self._stems
        }
