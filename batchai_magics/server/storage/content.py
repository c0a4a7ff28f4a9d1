"""Bytes as they go out: whole, or the range that was asked for, in pieces that never fill the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from batchai_magics.server.call import Answer, Call
from batchai_magics.server.storage.errors import StorageRefusal
from batchai_magics.server.storage.request import Span, span_of


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
    """The answer with the bytes of a span, or with all."""
    whole = span or Span(0, size)
    end = whole.end or 0
    more = {"Accept-Ranges": "bytes", "Content-Length": str(end - whole.start)}
    if span:
        more["Content-Range"] = f"bytes {span.start}-{end - 1}/{size}"
    return Answer(206 if span else 200, pieces=pieces(whole), headers={**headers, **more})
