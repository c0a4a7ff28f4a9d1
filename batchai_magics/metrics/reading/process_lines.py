"""Numbers the lines of each process in a shared file, without the lines of other processes in between.

Only prefixes are considered: a line counts unless it has a tag or a label of another rank.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from batchai_magics.metrics.reading.line_splitter import Lines

_MAX_FILE_LINES = 1024  # of all processes, after which a process's block has ended
_CHECKED_LINES = 64  # between checks for blocks that have ended
_MAX_LABELS = 8
_DIGITS = re.compile(rb"\d+")


@dataclass(slots=True)
class _Block:
    """The lines of one process below its heading."""

    touched: int  # number of the last line that belongs to the block
    counted: int  # number of the first line that is not yet counted
    foreign: int = 0  # lines of other processes


class ProcessLines:
    """The numbers of one file's lines, for each process that has printed the heading of a block.

    `is_ended(rank, number)` returns whether a rank's line of this number is too far below its heading.
    """

    def __init__(self, is_ended: Callable[[int, int], bool]) -> None:
        self._is_ended = is_ended
        self._blocks: dict[int, _Block] = {}
        self._owners: list[int | None] = []  # ranks of lines that blocks may have to count
        self._first = 0  # number of the first of them
        self._checked = 0  # number of the line up to which ended blocks were removed
        self._labels: dict[re.Pattern[bytes], int] = {}  # and the numbers of the first lines with them

    @property
    def is_open(self) -> bool:
        """Whether a block is open, so that lines must be passed."""
        return bool(self._blocks)

    def number(self, rank: int, number: int, lines: Lines) -> int:
        """The number of a rank's line, given its number in the file; it is one of `lines`."""
        block = self._blocks.get(rank)
        if block is None or number - block.touched > _MAX_FILE_LINES:
            return number
        if number > block.counted:
            self._count(block, rank, lines, number)
            block.counted = number + 1
        return number - block.foreign

    def learn_label(self, number: int, before: bytes, behind: bytes) -> None:
        """Learn a label from the text around a line's rank; lines below may have the same label."""
        label = _label_pattern(before, behind)
        if label in self._labels or len(self._labels) < _MAX_LABELS:
            self._labels[label] = min(number, self._labels.get(label, number))

    def touch(self, rank: int, number: int) -> None:
        """Note that a line belongs to a rank's block."""
        block = self._blocks.get(rank)
        if block is None or number - block.touched > _MAX_FILE_LINES:
            self.begin(rank, number)
        else:
            block.touched, block.counted = number, number + 1

    def begin(self, rank: int, number: int) -> None:
        """Begin a rank's block at a line, whose number is that in the file."""
        if not self._blocks:
            self._owners, self._checked = [], number
        self._blocks[rank] = _Block(number, number + 1)

    def end(self, lines: Lines) -> None:
        """Keep whose lines may still be counted; now and then, remove blocks that have ended."""
        end = lines.first + len(lines.texts)
        if end - self._checked >= _CHECKED_LINES:
            self._checked = end
            for rank, block in [*self._blocks.items()]:
                is_far = end - block.touched > _MAX_FILE_LINES
                if not is_far:
                    self._count(block, rank, lines, end)
                    block.counted = end
                if is_far or self._is_ended(rank, end - block.foreign):
                    del self._blocks[rank]
        begin = min((block.counted for block in self._blocks.values()), default=end)
        if self._blocks:
            self._pass(lines, begin, end)
        self._owners, self._first = self._owners[begin - self._first :], begin

    def _count(self, block: _Block, rank: int, lines: Lines, end: int) -> None:
        """Count the lines of other processes up to a line."""
        self._pass(lines, block.counted, end)
        between = self._owners[block.counted - self._first : end - self._first]
        block.foreign += len(between) - between.count(None) - between.count(rank)

    def _pass(self, lines: Lines, begin: int, end: int) -> None:
        """Determine the owners of lines from one number up to another, except those already known."""
        if not self._owners:
            self._first = begin
        known_end = self._first + len(self._owners)
        self._owners[:0] = self._owners_of(lines, begin, self._first)
        self._owners += self._owners_of(lines, known_end, end)
        self._first = min(begin, self._first)

    def _owners_of(self, lines: Lines, begin: int, end: int) -> list[int | None]:
        """The ranks of lines from one number up to another."""
        if end <= begin:
            return []
        rows = slice(begin - lines.first, end - lines.first)
        ranks = [lines.rank] * (end - begin) if lines.ranks is None else lines.ranks[rows]
        if None in ranks:
            labelled = self._labelled(lines.texts[rows], begin)
            ranks = [label if rank is None else rank for rank, label in zip(ranks, labelled, strict=True)]
        return ranks

    def _labelled(self, texts: Sequence[bytes], first: int) -> list[int | None]:
        """The rank in the label at the start of each line; in the longest if several labels match."""
        ranks: list[int | None] = [None] * len(texts)
        ends = [0] * len(texts)
        for label, known_from in self._labels.items():
            for index, match in enumerate(map(label.match, texts)):
                if match and match.end() > ends[index] and first + index >= known_from:
                    ranks[index], ends[index] = int(match[1]), match.end()
        return ranks


@lru_cache(256)
def _label_pattern(before: bytes, behind: bytes) -> re.Pattern[bytes]:
    """An expression for this label with any rank, given the text around a rank."""
    parts = [re.escape(part) for part in _DIGITS.split(before.rstrip(b" "))]
    return re.compile(rb"\d+".join(parts) + rb" *(\d{1,6})" + re.escape(behind))
