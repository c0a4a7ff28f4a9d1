"""Words of four bytes in a hash table: a look at each aligned word of a text tells which strings may be in.

A string of seven bytes covers one whole aligned word, whatever its place. So each string is known by four
words in a row, and the time that a look takes hardly depends on how many strings there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from batchai_magics.metrics.reading.literal_search import MIN_LITERAL_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.int64]
    Words = NDArray[np.uint32]

_TABLE_BITS = 16
_SHIFT = np.uint32(32 - _TABLE_BITS)
_STRIDE_WORDS = 1 << 15  # so much of a text at once stays in the processor's cache
_MULTIPLIERS = range(2654435761, 2654435761 + 20_000, 2)  # from 2**32 over the golden ratio on
_COMMON = (
    b"total images/sec: 10\timages/sec: 105.6 +/- 1.0 (jitter = 1.0)\t7.000 [1,0]<stdout>:[1,1]<stderr>: "
    b"2018-06-12 10:00:00.000001: I tensorflow/core/common_runtime/bfc_allocator.cc:204] "
    b"Chunk at 0x7f of size device to in the "
    b"INFO:tensorflow: WARNING time: loss step: information operation running - -- ==== ----"
)  # what many lines hold: words from here are avoided


class WordTable:
    """The words by which some strings are known; `windows` tells for each string where in it they stand."""

    def __init__(self, strings: Iterable[bytes]) -> None:
        self.windows = _windows(strings)
        self.words = np.array(
            sorted({word for window in self.windows.values() for word in window}), np.uint32
        )
        self._multiplier = _multiplier(self.words)
        self._ids = np.zeros(1 << _TABLE_BITS, np.int64)
        self._is_known = np.zeros(1 << _TABLE_BITS, np.bool_)
        hashes = _hashed(self.words, self._multiplier)
        self._ids[hashes], self._is_known[hashes] = np.arange(len(self.words)), True

    def ids_of(self, string: bytes) -> Mapping[int, int]:
        """The numbers of a string's words, each with its place in the string."""
        window = self.windows[string]
        return dict(zip(np.searchsorted(self.words, list(window)).tolist(), window.values(), strict=True))

    def ids_in(self, aligned: Words) -> Array | None:
        """The numbers of the known words among these, None if there are none: for blocks of lines."""
        is_known = self._is_known.take(_hashed(aligned, self._multiplier), mode="wrap")
        if b"\1" not in is_known.tobytes():
            return None
        words = aligned[is_known]
        ids = self._ids[_hashed(words, self._multiplier)]
        ids = ids[self.words[ids] == words]
        return ids if len(ids) else None

    def find(self, aligned: Words) -> tuple[Array, Array]:
        """The places of known words among these, and the words' numbers: for large buffers."""
        is_known = np.empty(len(aligned), np.bool_)
        for start in range(0, len(aligned), _STRIDE_WORDS):
            part = slice(start, start + _STRIDE_WORDS)
            self._is_known.take(_hashed(aligned[part], self._multiplier), mode="wrap", out=is_known[part])
        places = np.flatnonzero(is_known)
        words = aligned[places]
        ids = self._ids[_hashed(words, self._multiplier)]
        is_real = self.words[ids] == words
        return places[is_real], ids[is_real]


def words_of(text: bytes, first: int = 0) -> dict[int, int]:
    """The words of a text from a place on, and where they stand."""
    return {int.from_bytes(text[i : i + 4], "little"): i for i in range(first, len(text) - 3)}


def _windows(strings: Iterable[bytes]) -> dict[bytes, dict[int, int]]:
    """For each string four words in a row that differ, and are seldom in text and in strings before it."""
    windows: dict[bytes, dict[int, int]] = {}
    common, taken = words_of(_COMMON).keys(), set[int]()

    def cost(words: dict[int, int]) -> tuple[int, ...]:
        digits = sum(char in b"0123456789" for word in words for char in word.to_bytes(4, "little"))
        return -len(words), len(common & words.keys()), len(taken.intersection(words)), digits

    for string in strings:
        firsts = range(len(string) - MIN_LITERAL_BYTES, -1, -1)
        windows[string] = min((words_of(string[: i + MIN_LITERAL_BYTES], i) for i in firsts), key=cost)
        taken.update(words_of(string))
    return windows


def _multiplier(words: Words) -> np.uint32:
    """A multiplier that gives all words a place of their own in the table."""
    for multiplier in map(np.uint32, _MULTIPLIERS):
        if len(np.unique(_hashed(words, multiplier))) == len(words):
            return multiplier
    raise AssertionError("no multiplier tells the words apart")


def _hashed(words: Words, multiplier: np.uint32) -> Words:
    hashes: Words = words * multiplier
    hashes >>= _SHIFT
    return hashes
