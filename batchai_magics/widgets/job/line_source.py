"""One source of the merged log: whole lines in the order of writing, and the unterminated last line."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from batchai_magics.backends.base import Chunk, Span
from batchai_magics.log_lines import line_end, shown_start, whole_lines_end

NO_LIMIT = float("inf")
MAX_OPEN_BYTES = 1 << 18  # a longer line is passed on unterminated


class LineFragment(NamedTuple):
    """Whole lines of a file from `offset` onwards, and who wrote them."""

    offset: int
    data: bytes
    spans: tuple[Span, ...]


@dataclass
class _PendingChunk:
    """A chunk that is pending since the given poll."""

    chunk: Chunk
    poll: int

    def end_of_parts(self, at: int, until: float) -> int:
        """The end of the bytes from `at` onwards that were written before `until`: at least one part."""
        if until == NO_LIMIT:
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
    """A log read in chunks with write times; overwritten parts of a line are dropped."""

    def __init__(self) -> None:
        self.is_behind = False  # the file has more than was read
        self.has_any = False
        self.pending_bytes = 0
        self._pending: deque[_PendingChunk] = deque()
        self._at = 0
        self._open = b""  # the unterminated last line, as a terminal shows it
        self._open_at = 0

    @property
    def open_line(self) -> bytes:
        """The unterminated line as a terminal shows it."""
        return self._open.rstrip(b"\r")

    @property
    def head(self) -> float | None:
        """When the next pending bytes were written; None if none are pending."""
        return self._pending[0].time_at(self._at) if self._pending else None

    @property
    def pending_since(self) -> int | None:
        """The poll that read the oldest pending bytes."""
        return self._pending[0].poll if self._pending else None

    def add(self, chunk: Chunk, look: int) -> None:
        """Adds the next bytes."""
        self.is_behind = chunk.end < chunk.size
        if not chunk.data:
            return
        self.has_any = True
        self.pending_bytes += len(chunk.data)
        if not self._pending:
            self._at = chunk.offset
        self._pending.append(_PendingChunk(chunk, look))

    def take(self, until: float = NO_LIMIT) -> Iterator[LineFragment]:
        """Takes the whole lines of the first pending chunk that were written before `until`."""
        block = self._pending[0]
        start, end = self._at, block.end_of_parts(self._at, until)
        self.pending_bytes -= end - start
        if end >= block.chunk.end:
            self._pending.popleft()
            self._at = self._pending[0].chunk.offset if self._pending else end
        else:
            self._at = end
        first = block.chunk.offset
        yield from self._lines(block, start, block.chunk.data[start - first : end - first])

    def finish(self) -> Iterator[LineFragment]:
        """Takes the unterminated last line."""
        if self.open_line:
            yield LineFragment(self._open_at, self._open, ())
        self._open = b""

    def _lines(self, block: _PendingChunk, offset: int, data: bytes) -> Iterator[LineFragment]:
        cut = whole_lines_end(data)
        start = 0
        if cut and self._open:
            start = line_end(data)
            yield self._closed(block, offset, data[:start])
        for at, lines in _without_redraws(offset + start, data[start:cut]):
            yield LineFragment(at, lines, block.spans(at, at + len(lines)))
        self._keep_open(offset + cut, data[cut:])
        if len(self._open) > MAX_OPEN_BYTES:
            yield LineFragment(self._open_at, self._open, ())
            self._open = b""

    def _closed(self, block: _PendingChunk, offset: int, end: bytes) -> LineFragment:
        """The open line with its end; the writer of the end counts as the writer of the line."""
        line = self._open + end
        start = shown_start(line)
        first = self._open_at + start
        spans = block.spans(offset, offset + len(end))[-1:]
        self._open = b""
        return LineFragment(
            first, line[start:], tuple(Span(first, offset + len(end), span.rank) for span in spans)
        )

    def _keep_open(self, offset: int, data: bytes) -> None:
        if not self._open:
            self._open_at = offset
        line = self._open + data
        start = shown_start(line)
        self._open, self._open_at = line[start:], self._open_at + start


def _without_redraws(offset: int, lines: bytes) -> Iterator[tuple[int, bytes]]:
    """Whole lines with their offsets, without overwritten parts."""
    if lines.count(b"\r") == lines.count(b"\r\n"):
        if lines:
            yield offset, lines
        return
    for line in lines.split(b"\n")[:-1]:
        start = shown_start(line)
        yield offset + start, line[start:] + b"\n"
        offset += len(line) + 1
