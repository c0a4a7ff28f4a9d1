"""A search over the whole of a growing log, a slice of time at a time."""

from __future__ import annotations

import re
import time
from array import array
from collections.abc import Callable
from dataclasses import replace

from batchai_magics.backends.base import Bookmark, Chunk
from batchai_magics.metrics.reading.line_splitter import strip_escapes
from batchai_magics.options.regular_expressions import Expression, compile_expression, matching_lines
from batchai_magics.widgets.job.rank_lines import Read, is_of, spans_of

PIECE_BYTES = 1 << 20
SLICE_S = 0.2

ERROR = (
    r"Traceback \(most recent call last\)|\b(?:ERROR|FATAL|CRITICAL)\b|\b[A-Z]\w*(?:Error|Exception): "
    r"|Segmentation fault|core dumped|\bout of memory\b"
)
"""What the first error in a log looks like."""


def pattern_of(query: str, *, is_regex: bool) -> Pattern:
    """What the page's search box says, as a pattern; capitals count only in plain text that has some.

    Raises UsageError for what is no expression that can be searched in linear time.
    """
    if is_regex:
        return compile_expression(query, option="search", ignores_case=True)
    return re.compile(re.escape(query.encode()), re.IGNORECASE if query == query.lower() else 0)


Pattern = re.Pattern[bytes] | Expression


class Search:
    """The lines of a log that match. Each `go_on` looks at more of it, and at what has grown since."""

    def __init__(self, read: Read, pattern: Pattern, *, rank: int | None = None) -> None:
        self._read = read
        self._pattern = pattern
        self._rank = rank
        self.hits = array("d")  # where the lines start; as the page's numbers
        self._mark = Bookmark()
        self.size = 0

    @property
    def scanned(self) -> int:
        """How many bytes have been looked at."""
        return self._mark.offset

    @property
    def is_complete(self) -> bool:
        """Whether the file has been looked at to its end, as far as it was known then."""
        return self.scanned >= self.size

    def go_on(
        self,
        *,
        slice_s: float = SLICE_S,
        limit: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Looks on until the file's end, for about `slice_s` seconds at most, or to the `limit`-th match."""
        stop_at = clock() + slice_s
        while clock() < stop_at and (limit is None or len(self.hits) < limit):
            if not self._step():
                return

    def _step(self) -> bool:
        """Looks at the next piece; returns whether there may be more."""
        chunk = self._read(self.scanned, PIECE_BYTES)
        if not self._mark.is_in(chunk):  # it is another file now
            self.hits, self._mark = array("d"), Bookmark()
            return True
        self.size = chunk.size
        is_last = chunk.end >= chunk.size
        cut = chunk.data.rfind(b"\n") + 1
        data = chunk.data[: cut or (0 if is_last and not chunk.is_complete else len(chunk.data))]
        if is_last and chunk.is_complete:
            data = chunk.data
        self._look(chunk, data)
        self._mark = self._mark.after(replace(chunk, data=data))
        if is_last:
            self.size = self.scanned  # an unfinished line is looked at when it is whole
        return not is_last

    def _look(self, chunk: Chunk, data: bytes) -> None:
        spans = () if self._rank is None else spans_of(chunk)
        for start in self._matches(data):
            if self._rank is None or is_of(spans, chunk.offset + start, self._rank):
                self.hits.append(chunk.offset + start)

    def _matches(self, data: bytes) -> list[int]:
        """Where the matching lines of whole lines start."""
        pattern = self._pattern
        # Colours and overwritten progress lines are not what the reader sees: such text is cleaned first. One
        # that matches nothing, too, has to be asked line by line: that is no match here.
        if b"\x1b" in data or b"\r" in data or pattern.search(b""):
            return _lines_where(lambda line: any(match[0] for match in pattern.finditer(line)), data)
        return list(matching_lines(pattern, data))


def _lines_where(is_in: Callable[[bytes], bool], data: bytes) -> list[int]:
    """Where the lines start that match as the reader sees them."""
    starts, at = [], 0
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        line = strip_escapes(data[at:end].rstrip(b"\r").rpartition(b"\r")[2])
        if is_in(line):
            starts.append(at)
        at = end + 1
    return starts
