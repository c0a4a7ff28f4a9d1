"""Splits a byte stream into blocks of complete lines with a bounded remainder, and these into lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from batchai_magics.metrics.timestamps import Timestamp

MAX_LINE_BYTES = 64 * 1024
"""Longer lines are split here, so that a stream without newlines needs bounded memory."""

_DIGITS = b"0123456789"

# Escape sequences that a terminal interprets: colours, titles, cursor movement.
_SEQUENCES = r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"
_ESCAPES = re.compile(rb"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\))?")
_CONTROLS = re.compile(rf"{_SEQUENCES}|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Block(NamedTuple):
    """Complete lines, each ending in a newline, at a byte offset of their stream.

    Only a fragment of an overlong line and the last line of a stream may lack the newline.
    """

    data: bytes
    offset: int

    @property
    def end(self) -> int:
        """The byte offset after the last line."""
        return self.offset + len(self.data)


class LineSplitter:
    """Splits a byte stream into blocks of lines; a longer line is cut."""

    def __init__(self) -> None:
        self.offset = 0  # after the last block
        self._carry = b""

    @property
    def carry(self) -> bytes:
        """The last line, as far as it is incomplete."""
        return self._carry

    def seek(self, offset: int) -> None:
        """Set the file offset of the next bytes."""
        self.offset = offset - len(self._carry)

    def feed(self, data: bytes) -> Iterator[Block]:
        """Yield the blocks that these bytes complete; consume all of them before the next call."""
        buffer = self._carry + data
        start = 0
        while end := _block_end(buffer, start):
            yield Block(buffer[start:end], self.offset + start)
            start = end
        self._carry = buffer[start:]
        self.offset += start

    def finish(self) -> Block | None:
        """Return the unterminated last line, or None, and reset."""
        block = Block(self._carry, self.offset)
        self._carry, self.offset = b"", block.end
        return block if block.data else None


@dataclass(slots=True)
class Lines:
    """Successive lines of a file without their ends; `ends` are offsets in the file.

    `rank` is the rank of all lines, None if lines may print theirs; `ranks` and `stamps` are from the tags of
    the lines. `first` is the number of the first line in its file. `is_continued`: the first line is the rest
    of an overlong one. `has_end`: the last one has its newline. `text` is that of all lines, if it is known.
    """

    texts: list[bytes]
    ends: Sequence[int]
    rank: int | None
    first: int
    ranks: list[int | None] | None = None
    stamps: list[Timestamp | None] | None = None
    is_continued: bool = False
    has_end: bool = True
    text: bytes | None = None

    @property
    def joined(self) -> bytes:
        """The lines with newlines between them."""
        if self.text is None:
            self.text = b"\n".join(self.texts)
        return self.text

    def rank_at(self, row: int) -> int | None:
        """The rank of a line from its file or its tag; None if neither has one."""
        return self.rank if self.ranks is None else self.ranks[row]

    def stamp_at(self, row: int) -> Timestamp | None:
        """The time in a line's tag."""
        return None if self.stamps is None else self.stamps[row]

    def is_whole(self, row: int) -> bool:
        """Whether a line has its beginning and its end."""
        return not (self.is_continued and row == 0) and (self.has_end or row < len(self.texts) - 1)

    def slice(self, begin: int, end: int) -> Lines:
        """Some of the lines."""
        return replace(
            self,
            texts=self.texts[begin:end],
            ends=self.ends[begin:end],
            first=self.first + begin,
            ranks=self.ranks and self.ranks[begin:end],
            stamps=self.stamps and self.stamps[begin:end],
            text=None,
        )


def split_lines(block: Block) -> Iterator[Block]:
    """The lines of a block; the last one may lack its newline."""
    offset = block.offset
    for line in block.data.splitlines(keepends=True):
        yield Block(line, offset)
        offset += len(line)


def strip_escapes(line: bytes) -> bytes:
    """Remove terminal escape sequences, NUL and backspace."""
    text = _ESCAPES.sub(b"", line) if b"\x1b" in line else line
    return text.translate(None, b"\0\b") if b"\0" in text or b"\b" in text else text


def strip_controls(text: str) -> str:
    """Remove terminal escape sequences and all control characters except tab and newline."""
    return _CONTROLS.sub("", text)


def _block_end(buffer: bytes, start: int) -> int:
    """Where the block that starts at `start` ends, or 0 while unknown."""
    if len(buffer) - start > MAX_LINE_BYTES and (newline := buffer.rfind(b"\n", start)) >= 0:
        windows = range(start, newline, MAX_LINE_BYTES // 2)
        if all(buffer.find(b"\n", begin, begin + MAX_LINE_BYTES // 2) >= 0 for begin in windows[:-1]):
            return newline + 1
    limit = start + MAX_LINE_BYTES
    newline = buffer.rfind(b"\n", start, limit)
    if newline >= 0:
        return newline + 1
    if len(buffer) < limit:
        return 0
    # Never split between two digits: half a step number would be a valid step.
    return start + (len(buffer[start:limit].rstrip(_DIGITS)) or MAX_LINE_BYTES)
