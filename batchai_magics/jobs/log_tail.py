"""The end of a growing file, kept in memory with its absolute offsets; which rank wrote which bytes."""

from __future__ import annotations

import re
from array import array
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from batchai_magics.backends.base import Chunk, Span
from batchai_magics.jobs.merged_log import UNKNOWN_RANK
from batchai_magics.log_lines import line_end, visible_text
from batchai_magics.metrics.reading.line_splitter import strip_controls
from batchai_magics.metrics.reading.prefix_patterns import has_tag

MAX_TAIL_BYTES = 1 << 18

_TAG = re.compile(rb"^\[(?:[^\[\]\s@]{1,64}@)?(?:\d{1,18},)?(\d{1,6})\]<std(?:out|err|diag)>:", re.MULTILINE)


@dataclass(frozen=True)
class TailFragment:
    """Bytes to send, with their offset and the number of lines skipped before them."""

    offset: int
    data: bytes
    skipped_lines: int
    line: int  # number of lines in the file before `offset + len(data)`

    @property
    def end(self) -> int:
        """The offset of the next piece."""
        return self.offset + len(self.data)


class LogTail:
    """The last bytes of a file. `generation` increases when the file was truncated."""

    def __init__(self, max_bytes: int = MAX_TAIL_BYTES) -> None:
        self._max_bytes = max_bytes
        self._data = bytearray()
        self._spans: deque[Span] = deque()
        self._ranks: set[int] = set()
        self.start = 0
        self.start_line = 0
        self.size = 0
        self.generation = 0

    @property
    def end(self) -> int:
        """The offset after the last byte."""
        return self.start + len(self._data)

    @property
    def is_shared(self) -> bool:
        """Whether several ranks wrote to the file and their lines can be attributed."""
        return len(self._ranks) > 1

    def add(self, chunk: Chunk, *, is_restarted: bool = False) -> None:
        """Appends the next bytes of the file; a hole drops the bytes before it."""
        if is_restarted:
            self._reset(0)
            self.start_line, self.size = 0, 0
            self.generation += 1
        if chunk.offset > self.end:
            self._reset(chunk.offset)
        self._data += chunk.data[self.end - chunk.offset :]
        self._spans.extend(chunk.spans)
        if len(self._ranks) <= 1:
            self._ranks.update(span.rank for span in spans_of(chunk))
        self.size = max(self.size, chunk.size)
        excess = len(self._data) - self._max_bytes
        # Trimming each time would copy the whole tail for each small chunk.
        if excess >= self._max_bytes // 4:
            self.start_line += self._data.count(b"\n", 0, excess)
            del self._data[:excess]
            self.start += excess
            while self._spans and self._spans[0].end <= self.start:
                self._spans.popleft()

    def fragment(self, offset: int, limit: int, *, line: int) -> TailFragment:
        """Returns at most `limit` bytes, the newest, after `offset`, which has `line` lines before it."""
        start = max(offset, self.start)
        if self.end - start > limit:
            start = self.end - limit
        if start > offset:
            start = self._line_start(start)
        index = start - self.start
        data = bytes(self._data[index:])
        before = self.start_line + self._data.count(b"\n", 0, index)
        return TailFragment(start, data, max(0, before - line), before + data.count(b"\n"))

    def ranks(self, piece: TailFragment) -> bytes:
        """The ranks of a piece, encoded by `ranks_between`; empty unless several ranks wrote the file."""
        return ranks_between(self._spans, piece.offset, piece.end) if self.is_shared else b""

    def lines(self, count: int) -> tuple[str, ...]:
        """The last whole lines, and the unterminated text after them."""
        data = bytes(self._data[self._line_start(self.start) - self.start :])
        return tuple(data.decode("utf-8", "replace").split("\n")[-count - 1 :]) if data else ()

    def _line_start(self, offset: int) -> int:
        """The start of the first line at or after `offset`; `offset` itself if no line ends after it."""
        index = offset - self.start
        if index == 0 and self.start == 0:
            return offset
        end = line_end(self._data, max(0, index - 1))
        return self.start + end if end else offset

    def _reset(self, offset: int) -> None:
        self._data.clear()
        self._spans.clear()
        self.start = offset


class MergedLogTail(LogTail):
    """The tail of the merged log: its spans are always sent, as they mark the lines of stderr."""

    @property
    def is_shared(self) -> bool:
        """Always True."""
        return True


def spans_of(chunk: Chunk) -> tuple[Span, ...]:
    """Which rank wrote which bytes of a chunk; an untagged line among tagged ones has no rank.

    Tags (`[1,2]<stdout>:`, as Open MPI and horovodrun write them) take precedence over the backend's spans:
    a launcher that the job itself started is one process to the backend.
    """
    if not has_tag(chunk.data):
        return chunk.spans
    spans = []
    for tag in _TAG.finditer(chunk.data):
        end = line_end(chunk.data, tag.end()) or len(chunk.data)
        spans.append(Span(chunk.offset + tag.start(), chunk.offset + end, int(tag[1])))
    return tuple(spans) or chunk.spans


def ranks_between(spans: Iterable[Span], start: int, end: int) -> bytes:
    """Encodes who wrote the bytes between two offsets as int32 pairs: first byte (relative to `start`), rank.

    Rank -1 means unknown. Empty if no rank is known; tags in the text are ignored.
    """
    writers, at = list[tuple[int, int]](), start
    for span in spans:
        first, last = max(span.start, start), min(span.end, end)
        if first < last:
            writers += [(at, UNKNOWN_RANK)] * (first > at)
            writers.append((first, span.rank))
            at = last
    writers += [(at, UNKNOWN_RANK)] * (start < at < end)
    pairs = array("i")
    for offset, rank in writers:
        if not pairs or pairs[-1] != rank:
            pairs.extend((offset - start, rank))
    return pairs.tobytes()


MAX_LINES = 40
LOG_RECORD = re.compile(r'^\{"time": \d+(?:\.\d+)?, (?:"rank": \d+, )?"(?:step|epoch|params)": ')
"""The beginning of a line of log() (`RECORD` in widgets/frontend/job/log_rows.js)."""
MAX_LINE_LENGTH = 300


def recent_lines(lines: tuple[str, ...], count: int) -> tuple[str, ...]:
    """The last lines, with consecutive lines of log() folded into one, without an empty last line."""
    folded: list[str] = []
    whole = lines[:-1] if lines and not lines[-1] else lines
    for is_record, group in groupby(whole, lambda line: LOG_RECORD.match(line) is not None):
        same = list(group)
        folded += [f"… {len(same)} log() record{'s' * (len(same) > 1)}"] if is_record else same
    return tuple(folded[-count:])


def clean_lines(lines: tuple[str, ...]) -> list[str]:
    """The last lines as a terminal would show them, with limited length."""
    tails = (strip_controls(visible_text(line)) for line in lines[-MAX_LINES:])
    return [line if len(line) <= MAX_LINE_LENGTH else line[:MAX_LINE_LENGTH] + " …" for line in tails]
