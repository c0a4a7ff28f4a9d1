"""Separates the interleaved output of several processes: reassembles the lines of each from tagged text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import attrgetter
from typing import NamedTuple

from batchai_magics.metrics.reading.line_splitter import MAX_LINE_BYTES, Block, Lines, split_lines
from batchai_magics.metrics.reading.prefix_patterns import StreamKey, TaggedText, has_tag, split_tags
from batchai_magics.metrics.reading.timestamps import Timestamp

_UNTAGGED = StreamKey(None)
_TAGGED_LINE = re.compile(rb"(?m)^\[(?:\d{1,18},)?(\d{1,6})\]<(std(?:out|err|diag))>:(.*)$")
"""A line with the common form of a tag: rank, stream and text."""


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

    @property
    def is_open(self) -> bool:
        """Whether more of its line is to come."""
        return bool(self.carry or self.is_continued or self.timestamp)

    def take_line(self, end: int) -> StreamLine:
        line = StreamLine(self.carry, end, self.rank, self.is_continued, self.timestamp)
        self.carry, self.is_continued, self.timestamp = b"", line.text[-1:] != b"\n", None
        return line


class TaggedStreams:
    """The streams of a file, one of them current: untagged text belongs to it.

    `rank` is the rank of streams whose tags have none: a launcher may tag the output it forwards. Only with
    `are_blanks_of_tags`, a blank behind a tag is no text of its line: Open MPI 5 puts one there.
    """

    def __init__(self, rank: int | None, *, are_blanks_of_tags: bool = False) -> None:
        self._rank = rank
        self._prefix = b" " if are_blanks_of_tags else b""
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

    def demultiplex(self, block: Block) -> Iterator[Lines]:
        """The lines that streams complete: whole ones that follow each other at once, others one by one."""
        found = self._tagged_lines(block)
        if found:
            yield found
            return
        for is_whole, lines in groupby(self._completed(block), attrgetter("is_whole")):
            if is_whole:
                yield _lines_of([*lines])
            else:
                yield from (_lines_of([line]) for line in lines)

    def _tagged_lines(self, block: Block) -> Lines | None:
        """The lines of a block each of which is a tag and a whole line; None if some are not."""
        data, count = block.data, block.data.count(b"\n")
        if (
            data.count(b"<std") != count
            or b"\r" in data
            or any(each.is_open for each in self._streams.values())
        ):
            return None
        found = _TAGGED_LINE.findall(data)
        if not found or len(found) != count:
            return None
        ranks, names, texts = zip(*found, strict=True)
        known = {rank: int(rank) for rank in {*ranks}}
        self.switch_to(StreamKey(known[ranks[-1]], names[-1]))
        ends = accumulate((len(line) + 1 for line in data.split(b"\n")[:-1]), initial=block.offset)
        own = [text.removeprefix(self._prefix) for text in texts] if self._prefix else [*texts]
        return Lines(own, [*ends][1:], None, 0, [*map(known.__getitem__, ranks)])

    def _completed(self, block: Block) -> Iterator[StreamLine]:
        """Assign the text between tags to its streams; yield each line as its stream completes it."""
        for line in split_lines(block):
            for piece in split_tags(line.data) if has_tag(line.data) else [TaggedText(None, line.data)]:
                if piece.key:
                    self.switch_to(piece.key)
                stream = self._current
                stream.timestamp = piece.timestamp or stream.timestamp
                begins = piece.key and not stream.carry
                stream.carry += piece.text.removeprefix(self._prefix) if begins else piece.text
                if stream.carry[-1:] == b"\n" or len(stream.carry) > MAX_LINE_BYTES:
                    yield stream.take_line(line.end)

    def finish(self, end: int) -> Iterator[Lines]:
        """The unterminated lines, ordered by rank."""
        for key in sorted(self._streams, key=lambda key: (-1 if key.rank is None else key.rank, key.name)):
            if self._streams[key].carry:
                yield _lines_of([self._streams[key].take_line(end)])


def _lines_of(lines: Sequence[StreamLine]) -> Lines:
    """Whole lines of processes, or one that need not be whole, not yet numbered."""
    texts, ends, ranks, are_continued, timestamps = zip(*lines, strict=True)
    return Lines(
        [text.removesuffix(b"\n") for text in texts],
        ends,
        None,
        0,
        [*ranks],
        [*timestamps],
        is_continued=are_continued[0],
        has_end=texts[-1].endswith(b"\n"),
    )
