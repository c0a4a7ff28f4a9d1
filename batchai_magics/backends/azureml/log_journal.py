"""The log of all processes of a job, composed of their own logs in the order in which they were read. Pure.

The service keeps one file for each process and no common one. What was read becomes a piece of the common
log, at a fixed offset, so that every later read of that offset returns the same bytes.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from batchai_magics.backends.azureml.rank_logs import RankLog

CACHE_BYTES = 4 << 20  # of the end of the common log, for other readers of the job
_MAX_HELD = 1 << 16  # bytes of an unfinished line


@dataclass(frozen=True)
class Piece:
    """Bytes of one process in the common log.

    Attributes:
        start: Their offset in the common log.
        end: The offset after them.
        log: The process's own log.
        source: Their offset in that log.
        time: When they were written, in seconds since 1970; 0 if unknown.
    """

    start: int
    end: int
    log: RankLog
    source: int
    time: float = 0.0

    def clipped(self, start: int, end: int) -> Piece:
        """The part between two offsets of the common log."""
        first = max(self.start, start)
        return replace(self, start=first, end=min(self.end, end), source=self.source + first - self.start)


class LogJournal:
    """The pieces of a common log. Lines of several processes are never mixed.

    Attributes:
        generation: Identifies this composition: another process may have read the logs in another order.
        end: The size of the common log.
    """

    def __init__(self) -> None:
        self.generation = uuid.uuid4().hex
        self.end = 0
        self._pieces: list[Piece] = []
        self._taken: dict[str, int] = {}
        self._held: dict[str, tuple[RankLog, bytes, float]] = {}
        self._cache = bytearray()

    def received(self, name: str) -> int:
        """The bytes of a process's log that were read; those of an unfinished line are held back."""
        _, held, _ = self._held.get(name, (None, b"", 0.0))
        return self._taken.get(name, 0) + len(held)

    def add(self, log: RankLog, data: bytes, time: float = 0.0) -> None:
        """Appends the next bytes of a process's log; among several processes, only whole lines."""
        _, held, _ = self._held.pop(log.name, (log, b"", 0.0))
        data = held + data
        cut = len(data) if not log.label or len(data) > _MAX_HELD else _line_end(data)
        if cut < len(data):
            self._held[log.name] = log, data[cut:], time
        self._append(log, data[:cut], time)

    def release(self, name: str) -> None:
        """Appends the unfinished line of a process's log: it has been waiting for its end for long."""
        if name in self._held:
            self._append(*self._held.pop(name))

    def finish(self) -> None:
        """Appends the last lines that have no end: no log grows any more."""
        held, self._held = self._held, {}
        for log, data, time in held.values():
            self._append(log, data, time)

    def pieces(self, start: int, end: int) -> Sequence[Piece]:
        """The pieces between two offsets of the common log, clipped to them."""
        if start >= end:
            return ()
        first = max(0, bisect_right(self._pieces, start, key=lambda piece: piece.start) - 1)
        last = bisect_right(self._pieces, end - 1, key=lambda piece: piece.start)
        return [piece.clipped(start, end) for piece in self._pieces[first:last] if piece.end > start]

    def cached(self, start: int, end: int) -> bytes | None:
        """The bytes between two offsets; None where they must be read again."""
        first = self.end - len(self._cache)
        return bytes(self._cache[start - first : end - first]) if start >= first or start >= end else None

    def _append(self, log: RankLog, data: bytes, time: float) -> None:
        if not data:
            return
        source = self._taken.get(log.name, 0)
        self._pieces.append(Piece(self.end, self.end + len(data), log, source, time))
        self._taken[log.name] = source + len(data)
        self.end += len(data)
        self._cache += data
        del self._cache[:-CACHE_BYTES]


def _line_end(data: bytes) -> int:
    """The length of the whole lines; a progress bar's lines end with a carriage return."""
    return max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
