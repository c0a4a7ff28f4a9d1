"""Separates the interleaved output of several processes: reassembles the lines of each from tagged text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from batchai_magics.metrics.reading.line_splitter import MAX_LINE_BYTES, Block, split_lines
from batchai_magics.metrics.reading.prefix_patterns import StreamKey, TaggedText, has_tag, split_tags
from batchai_magics.metrics.reading.timestamps import Timestamp

_UNTAGGED = StreamKey(None)


class StreamLine(NamedTuple):
    """A line of one process; `end` is the file offset after it."""

    text: bytes
    end: int
    rank: int | None
    is_continued: bool = False  # continues a line that was too long
    timestamp: Timestamp | None = None  # of its last tag

    @property
    def is_whole(self) -> bool:
        """Whether it has its beginning and its end."""
        return not self.is_continued and self.text.endswith(b"\n")


@dataclass(slots=True)
class _Stream:
    """Output of one process since its last newline."""

    rank: int | None
    carry: bytes = b""
    is_continued: bool = False
    timestamp: Timestamp | None = None

    def take_line(self, end: int) -> StreamLine:
        line = StreamLine(self.carry, end, self.rank, self.is_continued, self.timestamp)
        self.carry, self.is_continued, self.timestamp = b"", line.text[-1:] != b"\n", None
        return line


class TaggedStreams:
    """The streams of a file, one of them current: untagged text belongs to it.

    `rank` is the rank of streams whose tags have none: a launcher may tag the output it forwards.
    """

    def __init__(self, rank: int | None) -> None:
        self._rank = rank
        self._streams = {_UNTAGGED: _Stream(rank)}
        self._current = self._streams[_UNTAGGED]

    @property
    def rank(self) -> int | None:
        """The rank of untagged text."""
        return self._current.rank

    @property
    def is_within_line(self) -> bool:
        """Whether the current stream has an incomplete line."""
        return bool(self._current.carry) or self._current.is_continued

    def switch_to(self, key: StreamKey) -> None:
        """Make this the current stream."""
        stream = self._streams.get(key)
        if stream is None:
            rank = self._rank if key.rank is None else key.rank
            stream = self._streams[key] = _Stream(rank)
        self._current = stream

    @contextmanager
    def within(self, key: StreamKey) -> Iterator[None]:
        """Make this the current stream for a while."""
        current = self._current
        self.switch_to(key)
        try:
            yield
        finally:
            self._current = current

    def demultiplex(self, block: Block) -> Iterator[StreamLine]:
        """Assign the text between tags to its streams; yield each line as its stream completes it."""
        for line in split_lines(block):
            for piece in split_tags(line.data) if has_tag(line.data) else [TaggedText(None, line.data)]:
                self._take(piece)
                carry = self._current.carry
                if carry[-1:] == b"\n" or len(carry) > MAX_LINE_BYTES:
                    yield self._current.take_line(line.end)

    def finish(self, end: int) -> Iterator[StreamLine]:
        """The unterminated lines, ordered by rank."""
        for key in sorted(self._streams, key=lambda key: (-1 if key.rank is None else key.rank, key.name)):
            if self._streams[key].carry:
                yield self._streams[key].take_line(end)

    def _take(self, piece: TaggedText) -> None:
        if piece.key:
            self.switch_to(piece.key)
        stream = self._current
        stream.timestamp = piece.timestamp or stream.timestamp
        stream.carry += piece.text
