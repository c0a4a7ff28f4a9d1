"""Who wrote which line of a log that many processes share, and the lines of one of them, a page at a time.

The backend tells it, or the tags do that `mpirun --tag-output` puts there.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from batchai_magics.backends.base import Chunk, Span
from batchai_magics.metrics.reading.prefix_patterns import has_tag

PAGE_BYTES = 1 << 16  # of one process's own lines
PIECE_BYTES = 1 << 18  # that are read at once
MOST_BYTES = 1 << 23  # that are looked through for one page

NOBODY = -1  # the rank of bytes whose writer is not known
_TAG = re.compile(rb"^\[(?:[^\[\]\s@]{1,64}@)?(?:\d{1,18},)?(\d{1,6})\]<std(?:out|err|diag)>:", re.MULTILINE)

Read = Callable[[int, int], Chunk]  # offset, limit


@dataclass
class RankPage:
    """What a process wrote between `start` and `end`: whole lines, and where each of them starts."""

    start: int
    end: int
    size: int
    data: bytes = b""
    starts: list[int] = field(default_factory=list)


def lines_of(read: Read, rank: int, offset: int, *, is_backward: bool) -> RankPage:
    """The lines of `rank` after `offset`, or before it (-1: the file's end), until a page is full."""
    size = read(0, 0).size
    if offset < 0:
        offset = size
    page = RankPage(offset, offset, size)
    pieces = _before(read, offset) if is_backward else _after(read, offset)
    for chunk in pieces:
        data, starts = _own(chunk, rank)
        page.data = data + page.data if is_backward else page.data + data
        page.starts = starts + page.starts if is_backward else page.starts + starts
        page.start, page.end = min(page.start, chunk.offset), max(page.end, chunk.end)
        if len(page.data) >= PAGE_BYTES or page.end - page.start >= MOST_BYTES:
            break
    return page


def tail_page(read: Read) -> RankPage:
    """The last lines of a file, whoever wrote them."""
    size = read(0, 0).size
    chunk = next(_before(read, size), None)
    if chunk is None:
        return RankPage(0, 0, size)
    return RankPage(chunk.offset, chunk.end, size, chunk.data, list(_line_starts(chunk.data, chunk.offset)))


def is_of(spans: Sequence[Span], offset: int, rank: int) -> bool:
    """Whether `rank` wrote the byte at `offset`."""
    at = bisect_right(spans, offset, key=lambda span: span.start) - 1
    return at >= 0 and spans[at].rank == rank and offset < spans[at].end


def _after(read: Read, offset: int) -> Iterator[Chunk]:
    """The file in pieces of whole lines, from `offset` on."""
    while (chunk := read(offset, PIECE_BYTES)).data:
        cut = len(chunk.data) if chunk.end >= chunk.size else chunk.data.rfind(b"\n") + 1
        chunk = _part(chunk, 0, cut or len(chunk.data))
        yield chunk
        offset = chunk.end


def _before(read: Read, offset: int) -> Iterator[Chunk]:
    """The file in pieces of whole lines, from `offset` back to its start."""
    while offset > 0:
        start = max(0, offset - PIECE_BYTES)
        chunk = read(start, offset - start)
        if not chunk.data:
            return
        cut = chunk.data.find(b"\n") + 1 if start else 0
        chunk = _part(chunk, cut if cut < len(chunk.data) else 0, len(chunk.data))
        yield chunk
        offset = chunk.offset


def _part(chunk: Chunk, first: int, last: int) -> Chunk:
    return Chunk(
        chunk.data[first:last], chunk.offset + first, chunk.size, chunk.is_complete, tuple(chunk.spans)
    )


def _own(chunk: Chunk, rank: int) -> tuple[bytes, list[int]]:
    """The lines of a piece that `rank` wrote, and their starts."""
    lines: list[bytes] = []
    starts: list[int] = []
    for span in spans_of(chunk):
        start, end = max(span.start, chunk.offset), min(span.end, chunk.end)
        if span.rank != rank or start >= end:
            continue
        data = chunk.data[start - chunk.offset : end - chunk.offset]
        starts += _line_starts(data, start)
        lines.append(data if data.endswith(b"\n") else data + b"\n")
    return b"".join(lines), starts


def _line_starts(data: bytes, offset: int) -> Iterator[int]:
    at = 0
    while at < len(data):
        yield offset + at
        at = data.find(b"\n", at) + 1 or len(data)


def spans_of(chunk: Chunk) -> tuple[Span, ...]:
    """Which rank wrote which bytes of a piece; a line without a tag among tagged ones is nobody's.

    Tags (`[1,2]<stdout>:`, as Open MPI and horovodrun write them) count more than what the backend has noted:
    it knows of a launcher that the job started itself only as one process.
    """
    return tuple(_tagged(chunk)) or chunk.spans


def ranks_between(spans: Iterable[Span], start: int, end: int) -> bytes:
    """Who wrote the bytes between two offsets, as int32 pairs: from which byte on (`start` is 0), which rank.

    A rank of -1 is nobody's. Empty where nothing is known; tags in the text itself are not looked at.
    """
    pairs = array("i")
    for offset, rank in _writers(spans, start, end):
        if not pairs or pairs[-1] != rank:
            pairs.extend((offset - start, rank))
    return pairs.tobytes()


def _writers(spans: Iterable[Span], start: int, end: int) -> Iterator[tuple[int, int]]:
    """From which byte on each rank has written, and nobody (-1) between them and behind the last."""
    at = start
    for span in spans:
        first, last = max(span.start, start), min(span.end, end)
        if first >= last:
            continue
        if first > at:
            yield at, NOBODY
        yield first, span.rank
        at = last
    if start < at < end:
        yield at, NOBODY


def _tagged(chunk: Chunk) -> Iterator[Span]:
    if not has_tag(chunk.data):
        return
    for tag in _TAG.finditer(chunk.data):
        end = chunk.data.find(b"\n", tag.end()) + 1 or len(chunk.data)
        yield Span(chunk.offset + tag.start(), chunk.offset + end, int(tag[1]))
