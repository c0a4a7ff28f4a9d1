"""Where any of some byte strings stand in a large buffer, all of them looked for at once.

A byte string of seven bytes or more covers one whole aligned word of four bytes, whatever its place: one look
at each aligned word, through a hash table of the words that matter, finds all occurrences of all strings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from batchai_magics.metrics.reading.gate import COMMON

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Positions = NDArray[np.int64]

_WINDOW = 7  # the shortest string that covers an aligned word of four bytes at any place
_TABLE_BITS = 16
_STRIDE_WORDS = 1 << 15  # so much of a buffer at once stays in the processor's cache
_MULTIPLIER = np.uint32(2654435761)  # 2**32 over the golden ratio: spreads what is multiplied evenly


class Scanner:
    """Finds some byte strings in a buffer; the time taken hardly depends on how many they are.

    The common ones come first: the others are told from them at once where that is possible.
    """

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._short = [literal for literal in literals if not _is_long(literal)]
        parts = _parts([literal for literal in literals if _is_long(literal)])
        words = sorted({word for words in parts.values() for word in words})
        ids = {word: number for number, word in enumerate(words)}
        self._parts = {
            literal: [(ids[word], shift) for word, shift in words.items()] for literal, words in parts.items()
        }
        self._holders: list[list[bytes]] = [[] for _ in words]
        for literal, places in self._parts.items():
            for number, _ in places:
                self._holders[number].append(literal)
        self._words = np.array(words, np.uint32)
        self._is_word = np.zeros(1 << _TABLE_BITS, np.bool_)
        self._is_word[_hashed(self._words)] = True
        self._ids = np.zeros(1 << _TABLE_BITS, np.int64)
        self._ids[_hashed(self._words)] = np.arange(len(words))
        # Words that share their place in the table with another one:
        self._displaced = np.flatnonzero(self._ids[_hashed(self._words)] != np.arange(len(words))).tolist()

    def find(self, buffer: bytearray, start: int, end: int) -> Mapping[bytes, Positions]:
        """The ascending positions of each string that occurs in `buffer[start:end]`."""
        found = {}
        first = start & ~3
        aligned = np.frombuffer(buffer, np.uint32, count=-(-(end - first) // 4), offset=first)
        index, ids = self._candidates(aligned)
        seen = np.flatnonzero(np.bincount(ids, minlength=len(self._words)))
        for literal in {literal for word in seen.tolist() for literal in self._holders[word]}:
            positions = _confirmed(buffer, literal, _places(index, ids, self._shifts_of(literal)) + first)
            found[literal] = positions[(positions >= start) & (positions <= end - len(literal))]
        for literal in self._short:
            found[literal] = _each(buffer, literal, start, end)
        return {literal: positions for literal, positions in found.items() if len(positions)}

    def _candidates(self, aligned: NDArray[np.uint32]) -> tuple[Positions, Positions]:
        is_word = np.empty(len(aligned), np.bool_)
        for start in range(0, len(aligned), _STRIDE_WORDS):
            part = slice(start, start + _STRIDE_WORDS)
            self._is_word.take(_hashed(aligned[part]), mode="wrap", out=is_word[part])
        index = np.flatnonzero(is_word)
        words = aligned[index]
        ids = self._ids[_hashed(words)]
        for number in self._displaced:
            ids[words == self._words[number]] = number
        is_real = self._words[ids] == words
        return index[is_real], ids[is_real]

    def _shifts_of(self, literal: bytes) -> Positions:
        """For each word, how far behind the literal's start it stands; -1 where it does not."""
        shifts = np.full(len(self._words), -1)
        for number, shift in self._parts[literal]:
            shifts[number] = shift
        return shifts


def _parts(literals: Sequence[bytes]) -> dict[bytes, dict[int, int]]:
    """For each literal four words in a row, one of which is aligned, and where in it they stand.

    They are seldom in text, and in other literals.
    """
    parts: dict[bytes, dict[int, int]] = {}
    common, taken = _words(COMMON, 0).keys(), set[int]()
    for literal in literals:
        windows = (
            _words(literal[: first + _WINDOW], first) for first in range(len(literal) - _WINDOW, -1, -1)
        )
        parts[literal] = min(
            windows,
            key=lambda words: (-len(words), len(common & words.keys()), len(taken.intersection(words))),
        )
        taken.update(_words(literal, 0))
    return parts


def _is_long(literal: bytes) -> bool:
    """Whether some four words in a row differ from each other."""
    return any(
        len(_words(literal[: first + _WINDOW], first)) == 4 for first in range(len(literal) - _WINDOW + 1)
    )


def _words(text: bytes, first: int) -> dict[int, int]:
    """The words of a text from a place on, and where they stand."""
    return {int.from_bytes(text[i : i + 4], "little"): i for i in range(first, len(text) - 3)}


def _hashed(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    hashes = words * _MULTIPLIER
    hashes >>= np.uint32(32 - _TABLE_BITS)
    return hashes


def _places(index: Positions, ids: Positions, shifts: NDArray[np.int64]) -> Positions:
    shift = shifts[ids]
    is_part = shift >= 0
    return index[is_part] * 4 - shift[is_part]


def _confirmed(buffer: bytearray, literal: bytes, positions: Positions) -> Positions:
    """The positions where the whole literal stands."""
    positions = positions[positions >= 0]
    for part in range(0, len(literal) - 3, 4):
        word = np.uint32(int.from_bytes(literal[part : part + 4], "little"))
        positions = positions[unaligned(buffer, np.uint32)[positions + part] == word]
    rest = len(literal) - 4
    word = np.uint32(int.from_bytes(literal[rest:], "little"))
    found: Positions = positions[unaligned(buffer, np.uint32)[positions + rest] == word]
    return found


def _each(buffer: bytearray, literal: bytes, start: int, end: int) -> Positions:
    positions = []
    place = buffer.find(literal, start, end)
    while place >= 0:
        positions.append(place)
        place = buffer.find(literal, place + 1, end)
    return np.array(positions, np.int64)


def unaligned(buffer: bytearray, dtype: type[Any]) -> NDArray[Any]:
    """The little-endian words of a buffer that begin at each of its bytes."""
    word = np.dtype(dtype).newbyteorder("<")
    return np.ndarray((len(buffer) - word.itemsize + 1,), word, buffer, 0, (1,))
