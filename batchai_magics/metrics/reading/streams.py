"""The outputs of several processes in one file: the pieces between tags become each one's lines again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from batchai_magics.metrics.reading.lines import MAX_LINE_BYTES, Block, lines_of
from batchai_magics.metrics.reading.prefixes import Piece, StreamKey, has_tag, split_tags
from batchai_magics.metrics.reading.times import Stamp

_UNTAGGED = StreamKey(None)


class StreamLine(NamedTuple):
    """A line of one process, up to the offset `end` of the file."""

    text: bytes
    end: int
    rank: int | None
    is_continued: bool = False  # it begins in the middle of a line that was too long
    stamp: Stamp | None = None  # of its last tag


@dataclass(slots=True)
class _Stream:
    """One process's output: the text since its last newline."""

    rank: int | None
    carry: bytes = b""
    is_continued: bool = False
    stamp: Stamp | None = None

    def take_line(self, end: int) -> StreamLine:
        line = StreamLine(self.carry, end, self.rank, self.is_continued, self.stamp)
        self.carry, self.is_continued, self.stamp = b"", line.text[-1:] != b"\n", None
        return line


class Streams:
    """All streams of a file, one of which is the current one: text without a tag belongs to it.

    `rank` is that of streams whose tags tell none: a process may be a launcher that tags what it passes on.
    """

    def __init__(self, rank: int | None) -> None:
        self._rank = rank
        self._streams = {_UNTAGGED: _Stream(rank)}
        self._current = self._streams[_UNTAGGED]

    @property
    def rank(self) -> int | None:
        """The rank of text that has no tag."""
        return self._current.rank

    @property
    def own_rank(self) -> int | None:
        """The rank of text whose tag tells none."""
        return self._rank

    @property
    def is_within_line(self) -> bool:
        """Whether the current stream's last line has not ended yet."""
        return bool(self._current.carry) or self._current.is_continued

    @property
    def is_any_within_line(self) -> bool:
        """Whether some stream's last line has not ended yet."""
        return any(stream.carry or stream.is_continued for stream in self._streams.values())

    def switch_to(self, key: StreamKey) -> None:
        """Make this stream the current one."""
        stream = self._streams.get(key)
        if stream is None:
            rank = self._rank if key.rank is None else key.rank
            stream = self._streams[key] = _Stream(rank)
        self._current = stream

    def untangle(self, block: Block) -> Iterator[StreamLine]:
        """Give each piece between tags to its stream; a line comes where its stream ends it."""
        for line in lines_of(block):
            for piece in split_tags(line.data) if has_tag(line.data) else [Piece(None, line.data)]:
                self._take(piece)
                carry = self._current.carry
                if carry[-1:] == b"\n" or len(carry) > MAX_LINE_BYTES:
                    yield self._current.take_line(line.end)

    def finish(self, end: int) -> Iterator[StreamLine]:
        """The lines that nothing ended, in the order of their ranks, however the streams came to be known."""
        for key in sorted(self._streams, key=lambda key: (-1 if key.rank is None else key.rank, key.name)):
            if self._streams[key].carry:
                yield self._streams[key].take_line(end)

    def _take(self, piece: Piece) -> None:
        text = piece.text
        if piece.key:
            self.switch_to(piece.key)
        stream = self._current
        stream.stamp = piece.stamp or stream.stamp
        if piece.key and not stream.carry and text[:1] == b" ":
            text = text[1:]  # Open MPI 5 puts a blank behind its tags
        stream.carry += text
