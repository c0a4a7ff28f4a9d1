"""Lines of a log that ranks share: attributed to ranks, read page by page, searched in time slices."""

from __future__ import annotations

import re
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from batchai_magics.backends.base import Bookmark, Chunk, Span
from batchai_magics.jobs.log_tail import spans_of
from batchai_magics.log_lines import line_bounds, line_end, visible_text, whole_lines_end
from batchai_magics.metrics.reading.line_splitter import strip_escapes
from batchai_magics.options.regular_expressions import Expression, compile_expression, matching_lines

PAGE_BYTES = 1 << 16  # of one rank's lines
CHUNK_BYTES = 1 << 18  # per read
MAX_SCAN_BYTES = 1 << 23  # per page

Read = Callable[[int, int], Chunk]  # offset, limit


@dataclass
class RankPage:
    """The lines of a rank between two offsets, and the offset of each line."""

    start: int
    end: int
    size: int
    data: bytes = b""
    starts: list[int] = field(default_factory=list)


def rank_page(read: Read, rank: int, offset: int, *, is_backward: bool) -> RankPage:
    """Reads a page of lines of `rank` after `offset`, or before it (-1: from the file's end)."""
    size = read(0, 0).size
    if offset < 0:
        offset = size
    page = RankPage(offset, offset, size)
    pieces = _chunks_before(read, offset) if is_backward else _chunks_after(read, offset)
    for chunk in pieces:
        data, starts = _lines_by(chunk, rank)
        page.data = data + page.data if is_backward else page.data + data
        page.starts = starts + page.starts if is_backward else page.starts + starts
        page.start, page.end = min(page.start, chunk.offset), max(page.end, chunk.end)
        if len(page.data) >= PAGE_BYTES or page.end - page.start >= MAX_SCAN_BYTES:
            break
    return page


def tail_page(read: Read) -> RankPage:
    """Reads the last lines of a file, of any rank."""
    size = read(0, 0).size
    chunk = next(_chunks_before(read, size), None)
    if chunk is None:
        return RankPage(0, 0, size)
    starts = [chunk.offset + start for start, _ in line_bounds(chunk.data)]
    return RankPage(chunk.offset, chunk.end, size, chunk.data, starts)


def is_written_by(spans: Sequence[Span], offset: int, rank: int) -> bool:
    """Whether `rank` wrote the byte at `offset`."""
    index = bisect_right(spans, offset, key=lambda span: span.start) - 1
    return index >= 0 and spans[index].rank == rank and offset < spans[index].end


def _chunks_after(read: Read, offset: int) -> Iterator[Chunk]:
    """Chunks of whole lines from `offset` onwards."""
    while (chunk := read(offset, CHUNK_BYTES)).data:
        cut = len(chunk.data) if chunk.end >= chunk.size else whole_lines_end(chunk.data)
        chunk = chunk.part(0, cut or len(chunk.data))
        yield chunk
        offset = chunk.end


def _chunks_before(read: Read, offset: int) -> Iterator[Chunk]:
    """Chunks of whole lines from `offset` back to the start of the file."""
    while offset > 0:
        start = max(0, offset - CHUNK_BYTES)
        chunk = read(start, offset - start)
        if not chunk.data:
            return
        cut = line_end(chunk.data) if start else 0
        chunk = chunk.part(cut if cut < len(chunk.data) else 0, len(chunk.data))
        yield chunk
        offset = chunk.offset


def _lines_by(chunk: Chunk, rank: int) -> tuple[bytes, list[int]]:
    """The lines of a chunk that `rank` wrote, and their offsets."""
    lines: list[bytes] = []
    starts: list[int] = []
    for span in spans_of(chunk):
        start, end = max(span.start, chunk.offset), min(span.end, chunk.end)
        if span.rank != rank or start >= end:
            continue
        data = chunk.data[start - chunk.offset : end - chunk.offset]
        starts += (start + line_start for line_start, _ in line_bounds(data))
        lines.append(data if data.endswith(b"\n") else data + b"\n")
    return b"".join(lines), starts


SEARCH_BYTES = 1 << 20
SLICE_S = 0.2

ERROR_PATTERN = (
    r"Traceback \(most recent call last\)|\b(?:ERROR|FATAL|CRITICAL)\b|\b[A-Z]\w*(?:Error|Exception): "
    r"|Segmentation fault|core dumped|\bout of memory\b"
)
"""Matches the first error in a log."""


def pattern_of(query: str, *, is_regex: bool) -> Expression:
    """Compiles a query of the page's search box; case matters only in plain text with capitals.

    Raises UsageError for an expression that cannot be searched in linear time.
    """
    if is_regex:
        return compile_expression(query, option="search", ignores_case=True)
    return re.compile(re.escape(query.encode()), re.IGNORECASE if query == query.lower() else 0)


class Search:
    """The matching lines of a log. Each `advance` scans more of it, including what was appended since."""

    def __init__(self, read: Read, pattern: Expression, *, rank: int | None = None) -> None:
        self._read = read
        self._pattern = pattern
        self._rank = rank
        self.hits = array("d")  # offsets of matching lines, as JavaScript numbers
        self._mark = Bookmark()
        self.size = 0

    @property
    def scanned(self) -> int:
        """The number of bytes scanned."""
        return self._mark.offset

    @property
    def is_complete(self) -> bool:
        """Whether the file has been scanned to its last known end."""
        return self.scanned >= self.size

    def advance(
        self,
        *,
        slice_s: float = SLICE_S,
        limit: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Scans until the file's end, for about `slice_s` seconds, or until `limit` matches are found."""
        stop_at = clock() + slice_s
        while clock() < stop_at and (limit is None or len(self.hits) < limit):
            if not self._step():
                return

    def _step(self) -> bool:
        """Scans the next chunk; returns whether there may be more."""
        chunk = self._read(self.scanned, SEARCH_BYTES)
        if not self._mark.matches(chunk):  # the file was replaced
            self.hits, self._mark = array("d"), Bookmark()
            return True
        self.size = chunk.size
        is_last = chunk.end >= chunk.size
        cut = whole_lines_end(chunk.data)
        data = chunk.data[: cut or (0 if is_last and not chunk.is_complete else len(chunk.data))]
        if is_last and chunk.is_complete:
            data = chunk.data
        spans = () if self._rank is None else spans_of(chunk)
        for start in self._matches(data):
            if self._rank is None or is_written_by(spans, chunk.offset + start, self._rank):
                self.hits.append(chunk.offset + start)
        self._mark = self._mark.after(replace(chunk, data=data))
        if is_last:
            self.size = self.scanned  # an unterminated line is scanned once it is complete
        return not is_last

    def _matches(self, data: bytes) -> list[int]:
        """The start of each matching line."""
        pattern = self._pattern
        # Search what a terminal shows: without colours and overwritten progress. A pattern that matches the
        # empty string must be tried line by line: an empty match does not count.
        if b"\x1b" in data or b"\r" in data or pattern.search(b""):
            hits = []
            for start, end in line_bounds(data):
                line = strip_escapes(visible_text(data[start:end]))
                if any(match[0] for match in pattern.finditer(line)):
                    hits.append(start)
            return hits
        return list(matching_lines(pattern, data))
