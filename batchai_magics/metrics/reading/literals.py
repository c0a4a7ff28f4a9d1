"""The byte strings that tell a format: how one literal stands for several."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

SHORTEST = 7
"""No literal is shorter: so many bytes cover one aligned word of four bytes, whatever their place."""

_CLASSES = {
    b"#": [b"%d" % digit for digit in range(10)],
    b"^": [b"\n", b" ", b"\t", b",", b":", b";", b"|", b">", b"#"],
}


def spelled_out(literal: bytes) -> Iterator[bytes]:
    """The strings that a literal stands for: `#` is any digit, `^` what stands left of a word."""
    yield from map(b"".join, product(*(_CLASSES.get(bytes([char]), [bytes([char])]) for char in literal)))


def stem(literal: bytes) -> bytes:
    """The part of a literal that is the same in all strings that it stands for."""
    return literal.strip(b"#^")
