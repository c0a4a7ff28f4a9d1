"""Bytes as they go out: whole, or the range that was asked for, in pieces that never fill the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from batchai_magics.server.call import Answer, Call
from batchai_magics.server.storage.errors import StorageRefusal
from batchai_magics.server.storage.request import Span, span_of

_AT_ONCE = 256 << 10


def wanted(call: Call, size: int) -> Span | None:
    """The range that a request asks for within `size` bytes; None for the whole.

    Raises StorageRefusal (416) for one that begins at the end or behind it, also in an empty file.
    """
    span = span_of(call)
    if span is None:
        return None
    if span.start >= size:
        raise StorageRefusal(416, "InvalidRange", "The range specified is invalid for the current size.")
    return Span(span.start, min(size, span.end or size))


def content(
    headers: Mapping[str, str], size: int, span: Span | None, pieces: Callable[[Span], Iterator[bytes]]
) -> Answer:
    """The answer with the bytes of a span, or with all; few are read in the handler's own thread."""
    whole = span or Span(0, size)
    end = whole.end or 0
    more = {"Accept-Ranges": "bytes", "Content-Length": str(end - whole.start)}
    if span:
        more["Content-Range"] = f"bytes {span.start}-{end - 1}/{size}"
    answer = Answer(206 if span else 200, headers={**headers, **more})
    if end - whole.start <= _AT_ONCE:
        return replace(answer, body=b"".join(pieces(whole)))
    return replace(answer, pieces=pieces(whole))
