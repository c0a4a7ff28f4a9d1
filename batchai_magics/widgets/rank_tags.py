"""Who wrote which line: as the backend tells it, or as the tags say that `mpirun --tag-output` puts there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from batchai_magics.backends.base import Chunk, Span
from batchai_magics.metrics.prefixes import has_tag

_TAG = re.compile(rb"^\[(?:[^\[\]\s@]{1,64}@)?(?:\d{1,18},)?(\d{1,6})\]<std(?:out|err|diag)>:", re.MULTILINE)


def spans_of(chunk: Chunk) -> tuple[Span, ...]:
    """Which rank wrote which bytes of a piece; a line without a tag among tagged ones is nobody's.

    Tags (`[1,2]<stdout>:`, as Open MPI and horovodrun write them) count more than what the backend has noted:
    it knows of a launcher that the job started itself only as one process.
    """
    return tuple(_tagged(chunk)) or chunk.spans


def _tagged(chunk: Chunk) -> Iterator[Span]:
    if not has_tag(chunk.data):
        return
    for tag in _TAG.finditer(chunk.data):
        end = chunk.data.find(b"\n", tag.end()) + 1 or len(chunk.data)
        yield Span(chunk.offset + tag.start(), chunk.offset + end, int(tag[1]))
