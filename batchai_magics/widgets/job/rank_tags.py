"""Who wrote which line: as the backend tells it, or as the tags say that `mpirun --tag-output` puts there."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator

from batchai_magics.backends.base import Chunk, Span
from batchai_magics.metrics.reading.prefixes import has_tag

_TAG = re.compile(rb"^\[(?:[^\[\]\s@]{1,64}@)?(?:\d{1,18},)?(\d{1,6})\]<std(?:out|err|diag)>:", re.MULTILINE)
NOBODY = -1


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
