"""Which of many byte strings occur in a block, all of them looked for at once.

A byte string of seven bytes covers one whole aligned word of four bytes, whatever its place. So one look at
each aligned word of a block, through a hash table of the words that matter, tells which strings may be there;
only those are searched. The time taken hardly depends on how many strings there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHORTEST = 7
"""The shortest string that covers an aligned word of four bytes at any place."""

_TABLE_BITS = 16
_MULTIPLIERS = range(2654435761, 2654435761 + 4000, 2)
_CLASSES = {
    b"#": [b"%d" % digit for digit in range(10)],
    b"^": [b"\n", b" ", b"\t", b",", b":", b";", b"|", b">", b"#"],
}
COMMON = (
    b"total images/sec: 10\timages/sec: 105.6 +/- 1.0 (jitter = 1.0)\t7.000 [1,0]<stdout>:[1,1]<stderr>: "
    b"2018-06-12 10:00:00.000001: I tensorflow/core/common_runtime/bfc_allocator.cc:204] "
    b"Chunk at 0x7f of size device to in the "
    b"INFO:tensorflow: WARNING time: loss step: information operation running - -- ==== ----"
)
"""What many lines hold: words from here are avoided."""


def spelled_out(literal: bytes) -> Iterator[bytes]:
    """The strings that a literal stands for: `#` is any digit, `^` what stands left of a word."""
    yield from map(b"".join, product(*(_CLASSES.get(bytes([char]), [bytes([char])]) for char in literal)))


def stem(literal: bytes) -> bytes:
    """The part of a literal that is the same in all strings that it stands for."""
    return literal.strip(b"#^")


class Gate:
    """Tells which of some literals occur in a block.

    A literal is seven bytes or longer; it may begin or end with a class of `spelled_out`.
    """

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals = literals
        self._stems = [stem(literal) for literal in literals]

    def open_for(self, data: bytes) -> list[bool] | None:
        """For each literal, whether its stem occurs in the data; None if none does."""
        candidates = self._words.candidates(data)
        if candidates is None:
            return None
        return [maybe and text in data for maybe, text in zip(candidates, self._stems, strict=True)]

    @cached_property
    def _words(self) -> _Words:
        return _Words(self._literals)


class _Words:
    """The hash table of all words, made when it is first needed: numpy is slow to import."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        import numpy as np

        words_of = [{word for text in spelled_out(literal) for word in _words(text)} for literal in literals]
        known = sorted(set().union(*words_of))
        self._np: Any = np
        self._words = np.array(known, np.uint32)
        self._multiplier = np.uint32(_multiplier(known))
        self._shift = np.uint32(32 - _TABLE_BITS)
        self._word = np.dtype(np.uint32).newbyteorder("<")
        self._ids = np.zeros(1 << _TABLE_BITS, np.int64)
        self._ids[self._hashed(self._words)] = np.arange(len(known))
        self._is_known = np.zeros(1 << _TABLE_BITS, np.bool_)
        self._is_known[self._hashed(self._words)] = True
        self._holders = np.array([[word in words for word in known] for words in words_of], np.bool_)

    def candidates(self, data: bytes) -> list[bool] | None:
        """For each literal, whether one of its words stands at a multiple of four; None if no word does."""
        padded = b"\n%b%b" % (data, b"\n" * (3 - len(data) % 4))  # a line begins behind a newline
        aligned = self._np.frombuffer(padded, self._word)
        found = self._is_known.take(self._hashed(aligned), mode="wrap")
        if b"\1" not in found.tobytes():
            return None
        words = aligned[found]
        ids = self._ids[self._hashed(words)]
        ids = ids[self._words[ids] == words]
        if not len(ids):
            return None
        is_there = self._np.zeros(len(self._words), self._np.bool_)
        is_there[ids] = True
        result: list[bool] = (self._holders @ is_there).tolist()
        return result

    def _hashed(self, words: NDArray[Any]) -> NDArray[Any]:
        hashes: NDArray[Any] = words * self._multiplier
        hashes >>= self._shift
        return hashes


def _words(text: bytes) -> list[int]:
    """The words in the most unusual window of a string; one of them is aligned wherever the string is."""
    windows = [text[i : i + SHORTEST] for i in range(len(text) - SHORTEST + 1)]
    window = min(windows, key=lambda window: sum(window[i : i + 4] in COMMON for i in range(4)))
    return [int.from_bytes(window[i : i + 4], "little") for i in range(4)]


def _multiplier(words: Sequence[int]) -> int:
    """A multiplier that gives all words a place of their own in the table."""
    for multiplier in _MULTIPLIERS:
        if len({(word * multiplier & 0xFFFFFFFF) >> (32 - _TABLE_BITS) for word in words}) == len(words):
            return multiplier
    raise AssertionError("no multiplier tells the words apart")
