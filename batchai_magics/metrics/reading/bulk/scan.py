"""Where any of some literals stand in a large buffer, all of them looked for at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from batchai_magics.metrics.reading.bulk.word_table import WordTable, words_of
from batchai_magics.metrics.reading.literal_search import (
    CLASSES,
    MIN_LITERAL_BYTES,
    expand_literal,
    literal_stem,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Positions = NDArray[np.int64]


class Scanner:
    """Finds some literals in a buffer; the time taken hardly depends on how many they are.

    The common ones come first: the others are told from them at once where that is possible.
    """

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._short = [literal for literal in literals if not _is_long(literal)]
        long = [literal for literal in literals if _is_long(literal)]
        texts = {literal: list(expand_literal(literal)) for literal in long}
        self._table = WordTable(dict.fromkeys(chain.from_iterable(texts.values())))
        self._places_of = {literal: _merged(map(self._table.ids_of, texts[literal])) for literal in long}
        self._holders = _holders(self._places_of, count=len(self._table.words))

    def find(self, buffer: bytearray, start: int, end: int) -> Mapping[bytes, Positions]:
        """The ascending positions of each literal that occurs in `buffer[start:end]`."""
        positions_of = dict(self._long_in(buffer, start, end))
        for literal in self._short:
            found = [_each(buffer, text, start, end) for text in expand_literal(literal)]
            positions_of[literal] = np.sort(np.concatenate(found))
        return {literal: positions for literal, positions in positions_of.items() if len(positions)}

    def _long_in(self, buffer: bytearray, start: int, end: int) -> Iterator[tuple[bytes, Positions]]:
        first = start & ~3
        aligned = np.frombuffer(buffer, np.uint32, count=-(-(end - first) // 4), offset=first)
        places_of_word = _by_number(*self._table.find(aligned))
        for literal in {literal for word in places_of_word for literal in self._holders[word]}:
            begins = self._begins(literal, places_of_word)
            positions = _confirmed(buffer, literal, begins + first)
            is_in = (positions >= start) & (positions <= end - len(literal))
            is_new = np.diff(positions, prepend=-1) > 0  # by words of two spellings it may come twice
            yield literal, positions[is_in & is_new]

    def _begins(self, literal: bytes, places_of_word: Mapping[int, Positions]) -> Positions:
        """Where a literal would begin that has words at these places."""
        shifts = chain.from_iterable(shifts.items() for shifts in self._places_of[literal])
        begins = np.concatenate(
            [places_of_word[word] * 4 - shift for word, shift in shifts if word in places_of_word]
        )
        return np.sort(begins, kind="stable")


def _merged(places_of_texts: Iterable[Mapping[int, int]]) -> list[dict[int, int]]:
    """Where each word stands in any of the strings that a literal stands for: one place of a word in each."""
    merged: list[dict[int, int]] = []
    for number, shift in chain.from_iterable(places.items() for places in places_of_texts):
        free = (places for places in merged if places.get(number, shift) == shift)
        places = next(free, None)
        if places is None:
            merged.append(places := {})
        places[number] = shift
    return merged


def _holders(places_of: Mapping[bytes, Sequence[Mapping[int, int]]], *, count: int) -> list[set[bytes]]:
    """For each of so many words, the literals in which it stands."""
    holders: list[set[bytes]] = [set() for _ in range(count)]
    for literal, merged in places_of.items():
        for number in chain.from_iterable(merged):
            holders[number].add(literal)
    return holders


def _is_long(literal: bytes) -> bool:
    """Whether some four words in a row differ from each other, in all strings that it stands for."""
    ends = range(MIN_LITERAL_BYTES, len(literal) + 1)
    return all(
        any(len(words_of(text[:end], end - MIN_LITERAL_BYTES)) == 4 for end in ends)
        for text in expand_literal(literal)
    )


def _by_number(places: Positions, numbers: Positions) -> dict[int, Positions]:
    """The places of each number that there is, in their order."""
    order = np.argsort(numbers.astype(np.uint16), kind="stable")  # so narrow, they are sorted by counting
    ordered, counts = places[order], np.bincount(numbers)
    ends = np.cumsum(counts)
    seen = np.flatnonzero(counts).tolist()
    return {number: ordered[ends[number] - counts[number] : ends[number]] for number in seen}


def _confirmed(buffer: bytearray, literal: bytes, positions: Positions) -> Positions:
    """The positions where the whole literal stands."""
    text, first = literal_stem(literal), literal.find(literal_stem(literal))
    positions = positions[positions >= 0]
    for part in (*range(0, len(text) - 3, 4), len(text) - 4):
        word = np.uint32(int.from_bytes(text[part : part + 4], "little"))
        positions = positions[unaligned(buffer, np.uint32)[positions + (first + part)] == word]
    for place in (*range(first), *range(first + len(text), len(literal))):
        is_of_class = _is_of_class(literal[place : place + 1])
        positions = positions[is_of_class[np.frombuffer(buffer, np.uint8)[positions + place]]]
    return positions


@cache
def _is_of_class(name: bytes) -> NDArray[np.bool_]:
    """For each byte, whether a character of a literal stands for it."""
    is_of_class = np.zeros(256, np.bool_)
    is_of_class[[text[0] for text in CLASSES[name]]] = True
    return is_of_class


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
