"""A search over the whole of a growing log, in time slices."""

from __future__ import annotations

import re
import time
from array import array
from collections.abc import Callable
from dataclasses import replace

from batchai_magics.backends.base import Bookmark, Chunk
from batchai_magics.log_lines import line_bounds, shown, whole_lines_end
from batchai_magics.metrics.reading.line_splitter import strip_escapes
from batchai_magics.options.regular_expressions import Expression, compile_expression, matching_lines
from batchai_magics.widgets.job.rank_lines import Read, is_written_by, spans_of

CHUNK_BYTES = 1 << 20
SLICE_S = 0.2

ERROR_PATTERN = (
    r"Traceback \(most recent call last\)|\b(?:ERROR|FATAL|CRITICAL)\b|\b[A-Z]\w*(?:Error|Exception): "
    r"|Segmentation fault|core dumped|\bout of memory\b"
)
"""Matches the first error in a log."""


def pattern_of(query: str, *, is_regex: bool) -> Pattern:
    """Compiles a query of the page's search box; case matters only in plain text with capitals.

    Raises UsageError for an expression that cannot be searched in linear time.
    """
    if is_regex:
        return compile_expression(query, option="search", ignores_case=True)
    return re.compile(re.escape(query.encode()), re.IGNORECASE if query == query.lower() else 0)


Pattern = re.Pattern[bytes] | Expression


class Search:
    """The matching lines of a log. Each `advance` scans more of it, including what was appended since."""

    def __init__(self, read: Read, pattern: Pattern, *, rank: int | None = None) -> None:
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
        chunk = self._read(self.scanned, CHUNK_BYTES)
        if not self._mark.matches(chunk):  # the file was replaced
            self.hits, self._mark = array("d"), Bookmark()
            return True
        self.size = chunk.size
        is_last = chunk.end >= chunk.size
        cut = whole_lines_end(chunk.data)
        data = chunk.data[: cut or (0 if is_last and not chunk.is_complete else len(chunk.data))]
        if is_last and chunk.is_complete:
            data = chunk.data
        self._scan(chunk, data)
        self._mark = self._mark.after(replace(chunk, data=data))
        if is_last:
            self.size = self.scanned  # an unterminated line is scanned once it is complete
        return not is_last

    def _scan(self, chunk: Chunk, data: bytes) -> None:
        spans = () if self._rank is None else spans_of(chunk)
        for start in self._matches(data):
            if self._rank is None or is_written_by(spans, chunk.offset + start, self._rank):
                self.hits.append(chunk.offset + start)

    def _matches(self, data: bytes) -> list[int]:
        """The start of each matching line."""
        pattern = self._pattern
        # Search what a terminal shows: without colours and overwritten progress. A pattern that matches the
        # empty string must be tried line by line: an empty match does not count.
        if b"\x1b" in data or b"\r" in data or pattern.search(b""):
            return _lines_where(lambda line: any(match[0] for match in pattern.finditer(line)), data)
        return list(matching_lines(pattern, data))


def _lines_where(is_in: Callable[[bytes], bool], data: bytes) -> list[int]:
    """The start of each line that matches as a terminal shows it."""
    return [start for start, end in line_bounds(data) if is_in(strip_escapes(shown(data[start:end])))]
