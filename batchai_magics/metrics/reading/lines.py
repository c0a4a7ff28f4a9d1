"""Bytes in any chunking become blocks of whole lines, with a bounded remainder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

MAX_LINE_BYTES = 64 * 1024
"""A line without an end is cut here, so that a stream without newlines costs no memory."""

_DIGITS = b"0123456789"

# What a terminal takes as a command and does not show: colours, titles, movements of the cursor.
_SEQUENCES = r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"
_ESCAPES = re.compile(rb"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\))?")
_CODE = re.compile(rb"\x1b\[[0-9;:?]*[ -/]*[@-~]")
_LONG_BYTES = 2048
_MOST_CODES = 16
_CONTROLS = re.compile(rf"{_SEQUENCES}|[\x00-\x08\x0b-\x1f\x7f]")


class Block(NamedTuple):
    """Whole lines, each ended by a newline, at a byte offset of their stream.

    Only the piece of an overlong line, and a stream's last line, may lack the newline. If something was taken
    out of the lines, `raw_ends` tells of the end of each where the raw line ends.
    """

    data: bytes
    offset: int
    raw_ends: Mapping[int, int] | None = None

    @property
    def end(self) -> int:
        """The byte offset behind the block's last line."""
        end = self.offset + len(self.data)
        return end if self.raw_ends is None else self.raw_ends[end]

    def part(self, begin: int, end: int) -> Block:
        """The lines between two of its places."""
        return Block(self.data[begin:end], self.offset + begin, self.raw_ends)


class LineCutter:
    r"""Cuts one byte stream into blocks of at most 64 KiB; a `\r` ends a line as a `\n` does."""

    def __init__(self) -> None:
        self.offset = 0  # behind the last block
        self._carry = b""

    @property
    def is_within_line(self) -> bool:
        """Whether the last line has not ended yet."""
        return bool(self._carry)

    def move_to(self, offset: int) -> None:
        """The next bytes stand at this offset of their file."""
        self.offset = offset - len(self._carry)

    def feed(self, data: bytes) -> Iterator[Block]:
        """The blocks of whole lines that these bytes complete; take all of them before feeding again."""
        buffer = self._carry + data.replace(b"\r", b"\n")
        start = 0
        while end := _cut(buffer, start):
            yield Block(buffer[start:end], self.offset + start)
            start = end
        self._carry = buffer[start:]
        self.offset += start

    def finish(self) -> Block | None:
        """The last line, which nothing ended, or None; the cutter is empty afterwards."""
        block = Block(self._carry, self.offset)
        self._carry, self.offset = b"", block.end
        return block if block.data else None


def lines_of(block: Block) -> Iterator[Block]:
    """Each line of a block; the last one may lack its newline."""
    offset = block.offset
    for line in block.data.splitlines(keepends=True):
        yield Block(line, offset, block.raw_ends)
        offset += len(line)


def without_escapes(line: bytes) -> bytes:
    """A line without a terminal's commands, and without NUL and backspace."""
    shown = line
    for code in _usual_codes(line):
        shown = shown.replace(code, b"")
    if b"\x1b" in shown:
        shown = _ESCAPES.sub(b"", line)
    return shown.translate(None, b"\0\b") if b"\0" in shown or b"\b" in shown else shown


def _usual_codes(text: bytes) -> set[bytes]:
    """The terminal's commands in a long text, if they are few and nothing else is there to take out."""
    if len(text) < _LONG_BYTES:
        return set()
    codes = set(_CODE.findall(text, 0, _LONG_BYTES))
    is_all = len(codes) <= _MOST_CODES and sum(map(text.count, codes)) == text.count(b"\x1b")
    return codes if is_all else set()


def without_controls(text: str) -> str:
    """A text without a terminal's commands, and without any control character but tab and newline."""
    return _CONTROLS.sub("", text)


def _cut(buffer: bytes, start: int) -> int:
    """Where the block that begins at `start` ends, or 0 while that is not known."""
    limit = start + MAX_LINE_BYTES
    newline = buffer.rfind(b"\n", start, limit)
    if newline >= 0:
        return newline + 1
    if len(buffer) < limit:
        return 0
    # Never between two digits: half of a step number would look like another step.
    return start + (len(buffer[start:limit].rstrip(_DIGITS)) or MAX_LINE_BYTES)
