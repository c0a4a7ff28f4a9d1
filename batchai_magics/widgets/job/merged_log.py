"""stdout and stderr as one log: whole lines in the order in which they were written.

It is no file. Where each piece of it stands in the two files is remembered, so that any of its bytes can be
read again: a few dozen bytes for each change from one to the other.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import replace

from batchai_magics.backends.base import Chunk, Span
from batchai_magics.models.execution import ERR, OUT
from batchai_magics.widgets.job.line_source import LineSource, Piece
from batchai_magics.widgets.job.rank_lines import NOBODY
from batchai_magics.widgets.job.tail import Tail

MERGED = "/output"  # no file of a job can have this name
STDERR = 1 << 20  # added to the rank of bytes of stderr, and one more, since nobody is -1
MOST_WAITING = 1 << 26  # bytes; more of them come as they are, whatever else was written meanwhile
WINDOW_BYTES = 1 << 16  # of one file, read at once for pieces that lie near each other
FILES = (OUT, ERR)

ReadFile = Callable[[str, int, int], Chunk]  # file, offset, limit


class MergedLog:
    """The two logs as one. `add` what each look brings, then `advance`: it gives what is new, in order.

    Lines wait for the next look: only that tells that nothing was written to the other log before them.
    `is_possible` is False where nobody knows when what was written, or a log was cut.
    """

    def __init__(self) -> None:
        self.is_possible = True
        self.size = 0
        self._sources = {file: LineSource() for file in FILES}
        self._starts, self._files, self._offsets = array("q"), array("b"), array("q")
        self._ends = [-1, -1]  # in each file, of what came last
        self._ranks: set[int] = set()
        self._look = 0

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything that stdout alone does not show."""
        return self.is_possible and self._sources[ERR].has_any

    @property
    def open_lines(self) -> list[tuple[str, bytes]]:
        """What a terminal shows of the lines that have no end yet, by the file."""
        lines = [(file, source.open_line) for file, source in self._sources.items()]
        return [(file, line) for file, line in lines if line]

    def add(self, file: str, chunk: Chunk, *, is_restarted: bool = False) -> None:
        """Takes the next bytes of one of the two."""
        if is_restarted or (chunk.data and not chunk.times):
            self.is_possible = False
        if self.is_possible:
            self._sources[file].add(chunk, self._look)
            if len(self._ranks) <= 1:
                self._ranks.update(span.rank for span in chunk.spans)

    def advance(self) -> list[Chunk]:
        """What is certain to come next, as pieces of the one log."""
        chunks = [self._placed(file, piece) for file, piece in self._next()]
        self._look += 1
        return chunks

    def finish(self) -> list[Chunk]:
        """All the rest: no more will come."""
        pieces = [*self._together()]
        for file, source in self._sources.items():
            while source.head is not None:
                pieces += [(file, piece) for piece in source.take()]
        for file, source in self._sources.items():
            pieces += [(file, piece._replace(data=piece.data + b"\n")) for piece in source.finish()]
        return [self._placed(file, piece) for file, piece in pieces]

    def read(self, read: ReadFile, offset: int, limit: int, *, is_complete: bool = False) -> Chunk:
        """At most `limit` bytes from `offset`, read again from the two files."""
        size = self.size
        data, spans = bytearray(), list[Span]()
        windows: dict[str, Chunk] = {}
        for file, at, length in self._places(offset, min(size, offset + limit)):
            known = windows.get(file)
            if known is None or not known.offset <= at <= at + length <= known.end:
                known = windows[file] = read(file, at, max(length, WINDOW_BYTES))
            part, shift = at - known.offset, offset + len(data) - at
            spans += self._coded(file, _between(known.spans, at, at + length), at, at + length, shift)
            data += known.data[part : part + length].ljust(length, b"\n")
        return Chunk(bytes(data), offset, size, is_complete, tuple(spans))

    def _next(self) -> Iterator[tuple[str, Piece]]:
        yield from self._together()
        for file, other in (FILES, FILES[::-1]):
            source = self._sources[file]
            while source.waiting_since is not None and self._is_certain(source, self._sources[other]):
                yield from ((file, piece) for piece in source.take())

    def _is_certain(self, source: LineSource, other: LineSource) -> bool:
        """Whether nothing of the other log can come before what waits of this one, of which nothing waits."""
        if other.head is not None:
            return False
        is_old = source.waiting_since != self._look and not other.is_behind
        return is_old or source.waiting_bytes > MOST_WAITING

    def _together(self) -> Iterator[tuple[str, Piece]]:
        """What can be put in order as long as bytes of both wait."""
        out, err = (self._sources[file] for file in FILES)
        while out.head is not None and err.head is not None:
            if out.head <= err.head:
                yield from ((OUT, piece) for piece in out.take(err.head))
            else:
                yield from ((ERR, piece) for piece in err.take(out.head))

    def _placed(self, file: str, piece: Piece) -> Chunk:
        """A piece at the end of the one log."""
        number, start, end = FILES.index(file), self.size, piece.offset + len(piece.data)
        is_next = bool(self._files) and self._files[-1] == number and self._ends[number] == piece.offset
        if not is_next:
            self._starts.append(start)
            self._files.append(number)
            self._offsets.append(piece.offset)
        self._ends[number] = end
        self.size += len(piece.data)
        spans = self._coded(file, piece.spans, piece.offset, end, start - piece.offset)
        return Chunk(piece.data, start, self.size, False, tuple(spans))

    def _places(self, start: int, end: int) -> Iterator[tuple[str, int, int]]:
        """The file, offset and length of each piece between two offsets of the one log."""
        at = start
        index = bisect_right(self._starts, start) - 1
        while at < end:
            until = min(end, self._starts[index + 1] if index + 1 < len(self._starts) else end)
            yield FILES[self._files[index]], self._offsets[index] + at - self._starts[index], until - at
            at, index = until, index + 1

    def _coded(self, file: str, spans: tuple[Span, ...], start: int, end: int, shift: int) -> Iterator[Span]:
        """Who wrote what, with the mark of stderr; a lone process is not named."""
        is_alone = len(self._ranks) <= 1
        if file == OUT:
            if not is_alone:
                yield from (Span(span.start + shift, span.end + shift, span.rank) for span in spans)
        elif is_alone or not spans:
            yield Span(start + shift, end + shift, STDERR + 1 + NOBODY)
        else:
            yield from (Span(s.start + shift, s.end + shift, STDERR + 1 + s.rank) for s in spans)


class MergedTail(Tail):
    """The end of the one log: whose lines they are is told of all, since some are of stderr."""

    @property
    def is_shared(self) -> bool:
        """Always."""
        return True


def _between(spans: tuple[Span, ...], start: int, end: int) -> tuple[Span, ...]:
    """The parts of spans between two offsets."""
    inside = (span for span in spans if span.end > start and span.start < end)
    return tuple(Span(max(s.start, start), min(s.end, end), s.rank) for s in inside)


def without_marks(chunk: Chunk) -> Chunk:
    """The same chunk, whose spans tell ranks alone."""
    ranks = (span.rank if span.rank < STDERR else span.rank - STDERR - 1 for span in chunk.spans)
    spans = (replace(span, rank=rank) for span, rank in zip(chunk.spans, ranks, strict=True))
    return replace(chunk, spans=tuple(span for span in spans if span.rank != NOBODY))
