"""One of the logs that are read as one: whole lines as they were written, and the line that is still open."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from batchai_magics.backends.base import Chunk, Span

ALL = float("inf")
LONGEST_OPEN = 1 << 18  # a longer line is taken as it is


class Piece(NamedTuple):
    """Whole lines of a file, from `offset` on, and who wrote them."""

    offset: int
    data: bytes
    spans: tuple[Span, ...]


@dataclass
class _Block:
    """Bytes that are waiting; `look` is the one that brought them."""

    chunk: Chunk
    look: int

    def end_of_parts(self, at: int, until: float) -> int:
        """Where the bytes from `at` on end that were written before `until`: one part of them at least."""
        if until == ALL:
            return self.chunk.end
        times = self.chunk.times
        part = bisect_right(times, at, key=lambda written: written.start)
        while part < len(times) and times[part].time < until:
            part += 1
        return times[part].start if part < len(times) else self.chunk.end

    def time_at(self, at: int) -> float:
        """When the byte was written."""
        times = self.chunk.times
        return times[max(0, bisect_right(times, at, key=lambda written: written.start) - 1)].time

    def spans(self, start: int, end: int) -> tuple[Span, ...]:
        """Who wrote the bytes between two offsets."""
        spans = self.chunk.spans
        first = bisect_right(spans, start, key=lambda span: span.end)
        last = bisect_left(spans, end, key=lambda span: span.start)
        return tuple(Span(max(s.start, start), min(s.end, end), s.rank) for s in spans[first:last])


class LineSource:
    """A log that comes in chunks with the times of writing; what was overwritten in a line is left out."""

    def __init__(self) -> None:
        self.is_behind = False  # more of it is there than was read
        self.has_any = False
        self.waiting_bytes = 0
        self._blocks: deque[_Block] = deque()
        self._at = 0
        self._open = b""  # what a terminal shows of the last line, which has no end yet
        self._open_at = 0

    @property
    def open_line(self) -> bytes:
        """What a terminal shows of the line that has no end yet."""
        return self._open.rstrip(b"\r")

    @property
    def head(self) -> float | None:
        """When the next bytes that wait were written; None when none wait."""
        return self._blocks[0].time_at(self._at) if self._blocks else None

    @property
    def waiting_since(self) -> int | None:
        """The look that brought the oldest bytes that wait."""
        return self._blocks[0].look if self._blocks else None

    def add(self, chunk: Chunk, look: int) -> None:
        """Takes the next bytes."""
        self.is_behind = chunk.end < chunk.size
        if not chunk.data:
            return
        self.has_any = True
        self.waiting_bytes += len(chunk.data)
        if not self._blocks:
            self._at = chunk.offset
        self._blocks.append(_Block(chunk, look))

    def take(self, until: float = ALL) -> Iterator[Piece]:
        """The whole lines among the bytes of the first chunk that were written before `until`."""
        block = self._blocks[0]
        start, end = self._at, block.end_of_parts(self._at, until)
        self.waiting_bytes -= end - start
        if end >= block.chunk.end:
            self._blocks.popleft()
            self._at = self._blocks[0].chunk.offset if self._blocks else end
        else:
            self._at = end
        first = block.chunk.offset
        yield from self._lines(block, start, block.chunk.data[start - first : end - first])

    def finish(self) -> Iterator[Piece]:
        """The last line, which has no end."""
        if self.open_line:
            yield Piece(self._open_at, self._open, ())
        self._open = b""

    def _lines(self, block: _Block, offset: int, data: bytes) -> Iterator[Piece]:
        cut = data.rfind(b"\n") + 1
        start = 0
        if cut and self._open:
            start = data.find(b"\n") + 1
            yield self._closed(block, offset, data[:start])
        for at, lines in _without_redraws(offset + start, data[start:cut]):
            yield Piece(at, lines, block.spans(at, at + len(lines)))
        self._keep_open(offset + cut, data[cut:])
        if len(self._open) > LONGEST_OPEN:
            yield Piece(self._open_at, self._open, ())
            self._open = b""

    def _closed(self, block: _Block, offset: int, end: bytes) -> Piece:
        """The line that was open, with its end; who wrote that has written all of it."""
        line = self._open + end
        start = _shown_start(line)
        first = self._open_at + start
        spans = block.spans(offset, offset + len(end))[-1:]
        self._open = b""
        return Piece(first, line[start:], tuple(Span(first, offset + len(end), span.rank) for span in spans))

    def _keep_open(self, offset: int, data: bytes) -> None:
        if not self._open:
            self._open_at = offset
        line = self._open + data
        start = _shown_start(line)
        self._open, self._open_at = line[start:], self._open_at + start


def _without_redraws(offset: int, lines: bytes) -> Iterator[tuple[int, bytes]]:
    """Whole lines at their offsets, each without what it has overwritten."""
    if lines.count(b"\r") == lines.count(b"\r\n"):
        if lines:
            yield offset, lines
        return
    for line in lines.split(b"\n")[:-1]:
        start = _shown_start(line)
        yield offset + start, line[start:] + b"\n"
        offset += len(line) + 1


def _shown_start(line: bytes) -> int:
    """Where in a line that begins which a terminal shows at last."""
    return line.rstrip(b"\r\n").rfind(b"\r") + 1
