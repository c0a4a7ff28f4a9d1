"""stdout and stderr merged into one virtual log: whole lines in the order of writing."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from batchai_magics.backends.base import Chunk, Span
from batchai_magics.log_lines import line_end, shown_start, whole_lines_end
from batchai_magics.models.job_execution import ERR, OUT

NO_LIMIT = float("inf")
UNKNOWN_RANK = -1  # of bytes that cannot be attributed
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

    def end_of_parts(self, offset: int, until: float) -> int:
        """The end of the bytes from `offset` onwards that were written before `until`: at least one part."""
        if until == NO_LIMIT:
            return self.chunk.end
        times = self.chunk.times
        part = bisect_right(times, offset, key=lambda written: written.start)
        while part < len(times) and times[part].time < until:
            part += 1
        return times[part].start if part < len(times) else self.chunk.end

    def time_at(self, offset: int) -> float:
        """When the byte at `offset` was written."""
        times = self.chunk.times
        return times[max(0, bisect_right(times, offset, key=lambda written: written.start) - 1)].time


def _between(spans: Sequence[Span], start: int, end: int) -> tuple[Span, ...]:
    """The parts of spans between two offsets."""
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

    def add(self, chunk: Chunk, poll: int) -> None:
        """Adds the next bytes."""
        self.is_behind = chunk.end < chunk.size
        if not chunk.data:
            return
        self.has_any = True
        self.pending_bytes += len(chunk.data)
        if not self._pending:
            self._at = chunk.offset
        self._pending.append(_PendingChunk(chunk, poll))

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
            line = self._open + data[:start]
            shown = shown_start(line)
            first, self._open = self._open_at + shown, b""
            # the writer of the end counts as the writer of the line
            writers = _between(block.chunk.spans, offset, offset + start)[-1:]
            spans = tuple(Span(first, offset + start, span.rank) for span in writers)
            yield LineFragment(first, line[shown:], spans)
        for first, lines in _without_redraws(offset + start, data[start:cut]):
            yield LineFragment(first, lines, _between(block.chunk.spans, first, first + len(lines)))
        line = self._open + data[cut:]
        if not self._open:
            self._open_at = offset + cut
        start = shown_start(line)
        self._open, self._open_at = line[start:], self._open_at + start
        if len(self._open) > MAX_OPEN_BYTES:
            yield LineFragment(self._open_at, self._open, ())
            self._open = b""


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


MERGED = "/output"  # no file of a job can have this name
STDERR = 1 << 20  # plus one is added to the rank of bytes of stderr: an unknown rank is -1
MAX_PENDING_BYTES = 1 << 26  # above this, bytes are appended without waiting for the other log
WINDOW_BYTES = 1 << 16  # per read of one file, for segments near each other
FILES = (OUT, ERR)

ReadFile = Callable[[str, int, int], Chunk]  # file, offset, limit


class MergedLog:
    """The two logs as one. `add` the chunks of each poll, then `advance` returns the new lines, in order.

    Lines wait for the next poll, which alone proves that nothing was written to the other log before them.
    `is_possible` is False if write times are unknown or a log was truncated.
    """

    def __init__(self) -> None:
        self.is_possible = True
        self.size = 0
        self._sources = {file: LineSource() for file in FILES}
        self._starts, self._files, self._offsets = array("q"), array("b"), array("q")
        self._ends = [-1, -1]  # of the last segment of each file
        self._ranks: set[int] = set()
        self._poll = 0

    @property
    def is_wanted(self) -> bool:
        """Whether the log has more to show than stdout."""
        return self.is_possible and self._sources[ERR].has_any

    @property
    def open_lines(self) -> list[tuple[str, bytes]]:
        """The unterminated lines as a terminal shows them, by file."""
        lines = [(file, source.open_line) for file, source in self._sources.items()]
        return [(file, line) for file, line in lines if line]

    def add(self, file: str, chunk: Chunk, *, is_restarted: bool = False) -> None:
        """Adds the next bytes of one of the two files."""
        if is_restarted or (chunk.data and not chunk.times):
            self.is_possible = False
        if self.is_possible:
            self._sources[file].add(chunk, self._poll)
            if len(self._ranks) <= 1:
                self._ranks.update(span.rank for span in chunk.spans)

    def advance(self) -> list[Chunk]:
        """Returns the lines that can be ordered with certainty, as chunks of the merged log."""
        pieces = [*self._interleaved()]
        for file, other_file in (FILES, FILES[::-1]):
            source = self._sources[file]
            while source.pending_since is not None and self._is_certain(source, self._sources[other_file]):
                pieces += [(file, piece) for piece in source.take()]
        self._poll += 1
        return [self._append(file, piece) for file, piece in pieces]

    def finish(self) -> list[Chunk]:
        """Returns the rest: both logs are complete."""
        pieces = [*self._interleaved()]
        for file, source in self._sources.items():
            while source.head is not None:
                pieces += [(file, piece) for piece in source.take()]
        for file, source in self._sources.items():
            pieces += [(file, piece._replace(data=piece.data + b"\n")) for piece in source.finish()]
        return [self._append(file, piece) for file, piece in pieces]

    def read(self, read: ReadFile, offset: int, limit: int, *, is_complete: bool = False) -> Chunk:
        """Reads at most `limit` bytes from `offset` again from the two files."""
        size = self.size
        data, spans = bytearray(), list[Span]()
        windows: dict[str, Chunk] = {}
        for file, at, length in self._segments(offset, min(size, offset + limit)):
            known = windows.get(file)
            if known is None or not known.offset <= at <= at + length <= known.end:
                known = windows[file] = read(file, at, max(length, WINDOW_BYTES))
            part, shift = at - known.offset, offset + len(data) - at
            spans += self._marked_spans(file, _between(known.spans, at, at + length), at, at + length, shift)
            data += known.data[part : part + length].ljust(length, b"\n")
        return Chunk(bytes(data), offset, size, is_complete, tuple(spans))

    def _is_certain(self, source: LineSource, other_source: LineSource) -> bool:
        """Whether no line of the other log, which has none pending, can precede the pending lines here."""
        if other_source.head is not None:
            return False
        is_old = source.pending_since != self._poll and not other_source.is_behind
        return is_old or source.pending_bytes > MAX_PENDING_BYTES

    def _interleaved(self) -> Iterator[tuple[str, LineFragment]]:
        """Orders pieces while bytes of both files are pending."""
        out, err = (self._sources[file] for file in FILES)
        while out.head is not None and err.head is not None:
            if out.head <= err.head:
                yield from ((OUT, piece) for piece in out.take(err.head))
            else:
                yield from ((ERR, piece) for piece in err.take(out.head))

    def _append(self, file: str, piece: LineFragment) -> Chunk:
        """Appends a piece to the merged log."""
        number, start, end = FILES.index(file), self.size, piece.offset + len(piece.data)
        is_next = bool(self._files) and self._files[-1] == number and self._ends[number] == piece.offset
        if not is_next:
            self._starts.append(start)
            self._files.append(number)
            self._offsets.append(piece.offset)
        self._ends[number] = end
        self.size += len(piece.data)
        spans = self._marked_spans(file, piece.spans, piece.offset, end, start - piece.offset)
        return Chunk(piece.data, start, self.size, False, tuple(spans))

    def _segments(self, start: int, end: int) -> Iterator[tuple[str, int, int]]:
        """The file, offset and length of each segment between two offsets of the merged log."""
        at = start
        index = bisect_right(self._starts, start) - 1
        while at < end:
            until = min(end, self._starts[index + 1] if index + 1 < len(self._starts) else end)
            yield FILES[self._files[index]], self._offsets[index] + at - self._starts[index], until - at
            at, index = until, index + 1

    def _marked_spans(
        self, file: str, spans: tuple[Span, ...], start: int, end: int, shift: int
    ) -> Iterator[Span]:
        """The spans with stderr marked in the rank; the rank of a single process is omitted."""
        is_alone = len(self._ranks) <= 1
        if file == OUT:
            if not is_alone:
                yield from (Span(span.start + shift, span.end + shift, span.rank) for span in spans)
        elif is_alone or not spans:
            yield Span(start + shift, end + shift, STDERR + 1 + UNKNOWN_RANK)
        else:
            yield from (Span(s.start + shift, s.end + shift, STDERR + 1 + s.rank) for s in spans)


def unmarked(chunk: Chunk) -> Chunk:
    """Returns the chunk with plain ranks in its spans."""
    ranks = (span.rank if span.rank < STDERR else span.rank - STDERR - 1 for span in chunk.spans)
    spans = (span._replace(rank=rank) for span, rank in zip(chunk.spans, ranks, strict=True))
    return replace(chunk, spans=tuple(span for span in spans if span.rank != UNKNOWN_RANK))
