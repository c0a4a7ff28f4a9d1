"""Attributes lines of a shared log to ranks, and reads the lines of one rank page by page.

The rank comes from the backend, or from the tags of `mpirun --tag-output`.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from batchai_magics.backends.base import Chunk, Span
from batchai_magics.log_lines import line_bounds, line_end, whole_lines_end
from batchai_magics.metrics.reading.prefix_patterns import has_tag

PAGE_BYTES = 1 << 16  # of one rank's lines
CHUNK_BYTES = 1 << 18  # per read
MAX_SCAN_BYTES = 1 << 23  # per page

UNKNOWN_RANK = -1  # of bytes that cannot be attributed
_TAG = re.compile(rb"^\[(?:[^\[\]\s@]{1,64}@)?(?:\d{1,18},)?(\d{1,6})\]<std(?:out|err|diag)>:", re.MULTILINE)

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
    starts = [chunk.offset + at for at, _ in line_bounds(chunk.data)]
    return RankPage(chunk.offset, chunk.end, size, chunk.data, starts)


def is_written_by(spans: Sequence[Span], offset: int, rank: int) -> bool:
    """Whether `rank` wrote the byte at `offset`."""
    at = bisect_right(spans, offset, key=lambda span: span.start) - 1
    return at >= 0 and spans[at].rank == rank and offset < spans[at].end


def _chunks_after(read: Read, offset: int) -> Iterator[Chunk]:
    """Chunks of whole lines from `offset` onwards."""
    while (chunk := read(offset, CHUNK_BYTES)).data:
        cut = len(chunk.data) if chunk.end >= chunk.size else whole_lines_end(chunk.data)
        chunk = _sliced(chunk, 0, cut or len(chunk.data))
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
        chunk = _sliced(chunk, cut if cut < len(chunk.data) else 0, len(chunk.data))
        yield chunk
        offset = chunk.offset


def _sliced(chunk: Chunk, first: int, last: int) -> Chunk:
    return Chunk(
        chunk.data[first:last], chunk.offset + first, chunk.size, chunk.is_complete, tuple(chunk.spans)
    )


def _lines_by(chunk: Chunk, rank: int) -> tuple[bytes, list[int]]:
    """The lines of a chunk that `rank` wrote, and their offsets."""
    lines: list[bytes] = []
    starts: list[int] = []
    for span in spans_of(chunk):
        start, end = max(span.start, chunk.offset), min(span.end, chunk.end)
        if span.rank != rank or start >= end:
            continue
        data = chunk.data[start - chunk.offset : end - chunk.offset]
        starts += (start + at for at, _ in line_bounds(data))
        lines.append(data if data.endswith(b"\n") else data + b"\n")
    return b"".join(lines), starts


def spans_of(chunk: Chunk) -> tuple[Span, ...]:
    """Which rank wrote which bytes of a chunk; an untagged line among tagged ones has no rank.

    Tags (`[1,2]<stdout>:`, as Open MPI and horovodrun write them) take precedence over the backend's spans:
    a launcher that the job itself started is one process to the backend.
    """
    return tuple(_tagged(chunk)) or chunk.spans


def ranks_between(spans: Iterable[Span], start: int, end: int) -> bytes:
    """Encodes who wrote the bytes between two offsets as int32 pairs: first byte (relative to `start`), rank.

    Rank -1 means unknown. Empty if no rank is known; tags in the text are ignored.
    """
    pairs = array("i")
    for offset, rank in _writers(spans, start, end):
        if not pairs or pairs[-1] != rank:
            pairs.extend((offset - start, rank))
    return pairs.tobytes()


def _writers(spans: Iterable[Span], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The first byte of each rank's part; -1 for the parts in between and after the last."""
    at = start
    for span in spans:
        first, last = max(span.start, start), min(span.end, end)
        if first >= last:
            continue
        if first > at:
            yield at, UNKNOWN_RANK
        yield first, span.rank
        at = last
    if start < at < end:
        yield at, UNKNOWN_RANK


def _tagged(chunk: Chunk) -> Iterator[Span]:
    if not has_tag(chunk.data):
        return
    for tag in _TAG.finditer(chunk.data):
        end = line_end(chunk.data, tag.end()) or len(chunk.data)
        yield Span(chunk.offset + tag.start(), chunk.offset + end, int(tag[1]))
