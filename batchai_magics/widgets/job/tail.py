"""The end of a growing file, kept in memory with its absolute offsets."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from batchai_magics.backends.base import Chunk, Span
from batchai_magics.widgets.job.rank_lines import ranks_between, spans_of

KEPT_BYTES = 1 << 18


@dataclass(frozen=True)
class Piece:
    """Bytes to send on: where they start, and how many lines before them are left out (None: not known)."""

    offset: int
    data: bytes
    skipped_lines: int
    line: int  # lines of the file before `offset + len(data)`

    @property
    def end(self) -> int:
        """Where the next piece starts."""
        return self.offset + len(self.data)


class Tail:
    """The last bytes of a file. `generation` grows when the file was cut and starts again."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._data = bytearray()
        self._spans: deque[Span] = deque()
        self._ranks: set[int] = set()
        self.start = 0
        self.start_line = 0
        self.size = 0
        self.generation = 0

    @property
    def end(self) -> int:
        """The offset behind the last byte."""
        return self.start + len(self._data)

    @property
    def is_shared(self) -> bool:
        """Whether several processes wrote to the file and their lines can be told apart."""
        return len(self._ranks) > 1

    def add(self, chunk: Chunk, *, is_restarted: bool = False) -> None:
        """Takes the next bytes of the file; those before a hole are forgotten."""
        if is_restarted:
            self._forget(0)
            self.start_line, self.size = 0, 0
            self.generation += 1
        if chunk.offset > self.end:
            self._forget(chunk.offset)
        self._data += chunk.data[self.end - chunk.offset :]
        self._spans.extend(chunk.spans)
        if len(self._ranks) <= 1:
            self._ranks.update(span.rank for span in spans_of(chunk))
        self.size = max(self.size, chunk.size)
        self._trim()

    def piece(self, offset: int, limit: int, *, line: int) -> Piece:
        """At most `limit` bytes after `offset` and its `line` lines; the newest if there are more."""
        start = max(offset, self.start)
        if self.end - start > limit:
            start = self.end - limit
        if start > offset:
            start = self._line_start(start)
        at = start - self.start
        data = bytes(self._data[at:])
        before = self.start_line + self._data.count(b"\n", 0, at)
        return Piece(start, data, max(0, before - line), before + data.count(b"\n"))

    def ranks(self, piece: Piece) -> bytes:
        """Who wrote which bytes of a piece, where several did and the backend knows (`ranks_between`)."""
        return ranks_between(self._spans, piece.offset, piece.end) if self.is_shared else b""

    def lines(self, count: int, *, rank: int | None = None) -> tuple[str, ...]:
        """The last lines; with `rank`, those which that process wrote, where that is known."""
        data = bytes(self._data)
        spans = (
            () if rank is None else spans_of(Chunk(data, self.start, self.size, False, tuple(self._spans)))
        )
        first = self._line_start(self.start) - self.start  # whole lines only
        if spans:
            mine = (span for span in spans if span.rank == rank)
            data = b"".join(data[max(first, s.start - self.start) : max(0, s.end - self.start)] for s in mine)
        else:
            data = data[first:]
        return tuple(data.decode("utf-8", "replace").split("\n")[-count - 1 :]) if data else ()

    def _line_start(self, offset: int) -> int:
        """The start of the first line at or after `offset`; `offset` itself if no line ends behind it."""
        at = offset - self.start
        if at == 0 and self.start == 0:
            return offset
        newline = self._data.find(b"\n", max(0, at - 1))
        return offset if newline < 0 else self.start + newline + 1

    def _trim(self) -> None:
        excess = len(self._data) - self._kept_bytes
        # Cutting every time would copy the whole of it for each small chunk.
        if excess < self._kept_bytes // 4:
            return
        self.start_line += self._data.count(b"\n", 0, excess)
        del self._data[:excess]
        self.start += excess
        while self._spans and self._spans[0].end <= self.start:
            self._spans.popleft()

    def _forget(self, offset: int) -> None:
        self._data.clear()
        self._spans.clear()
        self.start = offset
