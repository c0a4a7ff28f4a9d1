"""Which of many byte strings occur in a block, all of them looked for at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from batchai_magics.metrics.reading.literals import SHORTEST, spelled_out, stem

if TYPE_CHECKING:
    from batchai_magics.metrics.reading.word_table import WordTable


class Gate:
    """Tells which of some literals occur in a block.

    A literal is seven bytes or longer; it may begin or end with a class of `spelled_out`.
    """

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals = literals
        self._stems = [stem(literal) for literal in literals]

    def open_for(self, data: bytes) -> list[bool] | None:
        """For each literal, whether its stem occurs in the data; None if none does."""
        padded = b"\n%b%b" % (data, b"\n" * (3 - len(data) % 4))  # a line begins behind a newline
        ids = self._table.ids_in(self._np.frombuffer(padded, "<u4"))
        if ids is None:
            return None
        is_there = self._np.zeros(len(self._table.words), bool)
        is_there[ids] = True
        candidates = (self._holders @ is_there).tolist()
        return [maybe and text in data for maybe, text in zip(candidates, self._stems, strict=True)]

    @cached_property
    def _np(self) -> Any:
        import numpy as np

        return np

    @cached_property
    def _table(self) -> WordTable:
        """Made when it is first needed: numpy is slow to import."""
        from batchai_magics.metrics.reading.word_table import WordTable

        return WordTable(dict.fromkeys(text for literal in self._literals for text in _strings(literal)))

    @cached_property
    def _holders(self) -> Any:
        """For each literal, which words tell it."""
        import numpy as np

        holders = np.zeros((len(self._literals), len(self._table.words)), np.bool_)
        for row, literal in zip(holders, self._literals, strict=True):
            for text in _strings(literal):
                row[list(self._table.ids_of(text))] = True
        return holders


def _strings(literal: bytes) -> Iterator[bytes]:
    """The strings one of which is there if the literal is."""
    text = stem(literal)
    yield from [text] if len(text) >= SHORTEST else spelled_out(literal)
