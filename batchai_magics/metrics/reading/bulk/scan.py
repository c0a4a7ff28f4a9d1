"""Where any of some byte strings stand in a large buffer, all of them looked for at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from batchai_magics.metrics.reading.bulk.word_table import WordTable, words_of
from batchai_magics.metrics.reading.literals import SHORTEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Positions = NDArray[np.int64]


class Scanner:
    """Finds some byte strings in a buffer; the time taken hardly depends on how many they are.

    The common ones come first: the others are told from them at once where that is possible.
    """

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._short = [literal for literal in literals if not _is_long(literal)]
        long = [literal for literal in literals if _is_long(literal)]
        self._table = WordTable(long)
        self._places_of = {literal: self._table.ids_of(literal) for literal in long}
        self._holders = _holders(self._places_of, count=len(self._table.words))

    def find(self, buffer: bytearray, start: int, end: int) -> Mapping[bytes, Positions]:
        """The ascending positions of each string that occurs in `buffer[start:end]`."""
        positions_of = {}
        first = start & ~3
        aligned = np.frombuffer(buffer, np.uint32, count=-(-(end - first) // 4), offset=first)
        index, ids = self._table.find(aligned)
        seen = np.flatnonzero(np.bincount(ids, minlength=len(self._table.words)))
        for literal in {literal for word in seen.tolist() for literal in self._holders[word]}:
            positions = _confirmed(buffer, literal, _places(index, ids, self._shifts_of(literal)) + first)
            positions_of[literal] = positions[(positions >= start) & (positions <= end - len(literal))]
        for literal in self._short:
            positions_of[literal] = _each(buffer, literal, start, end)
        return {literal: positions for literal, positions in positions_of.items() if len(positions)}

    def _shifts_of(self, literal: bytes) -> Positions:
        """For each word, how far behind the literal's start it stands; -1 where it does not."""
        shifts = np.full(len(self._table.words), -1)
        for number, shift in self._places_of[literal].items():
            shifts[number] = shift
        return shifts


def _holders(places_of: Mapping[bytes, Mapping[int, int]], *, count: int) -> list[list[bytes]]:
    """For each of so many words, the strings in which it stands."""
    holders: list[list[bytes]] = [[] for _ in range(count)]
    for literal, ids in places_of.items():
        for number in ids:
            holders[number].append(literal)
    return holders


def _is_long(literal: bytes) -> bool:
    """Whether some four words in a row differ from each other."""
    ends = range(SHORTEST, len(literal) + 1)
    return any(len(words_of(literal[:end], end - SHORTEST)) == 4 for end in ends)


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
    confirmed: Positions = positions[unaligned(buffer, np.uint32)[positions + rest] == word]
    return confirmed


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
