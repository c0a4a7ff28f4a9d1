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
        self._owners: list[int | None] = []  # ranks of the lines since the first block began
        self._first = 0  # number of the first of them
        self._checked = 0  # number of the line up to which ended blocks were removed
        self._labels: dict[re.Pattern[bytes], int] = {}  # and the numbers of the first lines with them

    @property
    def is_open(self) -> bool:
        """Whether a block is open, so that lines must be passed."""
        return bool(self._blocks)

    @property
    def _passed(self) -> int:
        """The number of the first line whose owner is not known yet."""
        return self._first + len(self._owners)

    def number(self, rank: int, number: int, lines: Lines) -> int:
        """The number of a rank's line, given its number in the file; it is one of `lines`."""
        block = self._blocks.get(rank)
        if block is None or number - block.touched > _MAX_FILE_LINES:
            return number
        if number > block.counted:
            self._pass(lines, number)
            self._count(block, rank, number)
            block.counted = number + 1
        return number - block.foreign

    def learn_label(self, number: int, before: bytes, behind: bytes) -> None:
        """Learn a label from the text around a line's rank; lines below may have the same label."""
        label = _label_pattern(before, behind)
        if label in self._labels or len(self._labels) < _MAX_LABELS:
            self._labels[label] = min(number, self._labels.get(label, number))

    def touch(self, rank: int, number: int, lines: Lines) -> None:
        """Note that a line belongs to a rank's block; lines above it of other ranks may be read later."""
        if not self._blocks or self._passed < lines.first:  # after a gap, all blocks are too far above
            self._blocks.clear()
            self._owners, self._first, self._checked = [], lines.first, number
        block = self._blocks.get(rank)
        if block is None or number - block.touched > _MAX_FILE_LINES:
            self._blocks[rank] = _Block(number, number + 1)
        else:
            block.touched, block.counted = number, number + 1
        self._pass(lines, number + 1)

    def end(self, lines: Lines) -> None:
        """Pass the rest of these lines; now and then, remove blocks that have ended."""
        end = lines.first + len(lines.texts)
        self._pass(lines, min(end, self._passed + 2 * _MAX_FILE_LINES))
        if end - self._checked < _CHECKED_LINES:
            return
        self._checked = end
        for rank, block in [*self._blocks.items()]:
            self._count(block, rank, self._passed)
            block.counted = self._passed
            is_far = end - block.touched > _MAX_FILE_LINES
            if is_far or self._is_ended(rank, block.counted - block.foreign):
                del self._blocks[rank]
        self._owners, self._first = [], self._passed

    def _count(self, block: _Block, rank: int, end: int) -> None:
        """Count the lines of other processes up to a line that was passed."""
        between = self._owners[block.counted - self._first : end - self._first]
        block.foreign += len(between) - between.count(None) - between.count(rank)

    def _pass(self, lines: Lines, end: int) -> None:
        """Determine the owners of lines up to a number, except those of lines already passed."""
        begin = max(0, self._passed - lines.first)
        rows = slice(begin, min(end - lines.first, len(lines.texts)))
        if rows.stop <= begin:
            return
        ranks = [lines.rank] * (rows.stop - begin) if lines.ranks is None else lines.ranks[rows]
        if None in ranks:
            labelled = self._labelled(lines.texts[rows], lines.first + begin)
            ranks = [label if rank is None else rank for rank, label in zip(ranks, labelled, strict=True)]
        self._owners += ranks

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
