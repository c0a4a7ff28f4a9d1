"""Responses of storage: file content (whole or a range, streamed in pieces), and paged XML lists. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from batchai_magics.server.api_call import ApiCall, ApiResponse
from batchai_magics.server.storage.storage_resource import StorageApiError, parse_span

_INLINE_BYTES = 256 << 10
_PIECE_BYTES = 1 << 20


def content_response(
    call: ApiCall,
    headers: Mapping[str, str],
    size: int,
    read: Callable[[int, int], bytes],
    mask: Callable[[int, bytes], bytes] | None,
) -> ApiResponse:
    """The response with the requested range of a file, or the whole; a short one is read at once.

    `read` gets an offset and a number of bytes, `mask` the offset of bytes that it may change. Raises
    StorageApiError (416) for a range that starts at or beyond the end, also in an empty file.
    """
    span = parse_span(call)
    if span and span.start >= size:
        raise StorageApiError(416, "InvalidRange", "The range specified is invalid for the current size.")
    start, end = (span.start, min(size, span.end)) if span else (0, size)
    range_headers = {"Accept-Ranges": "bytes", "Content-Length": str(end - start)}
    if span:
        range_headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    response = ApiResponse(206 if span else 200, headers={**headers, **range_headers})
    pieces = _masked(pieces_of(read, start, end), start, mask) if mask else pieces_of(read, start, end)
    if end - start <= _INLINE_BYTES:
        return replace(response, body=b"".join(pieces))
    return replace(response, chunks=pieces)


def pieces_of(read: Callable[[int, int], bytes], start: int, end: int) -> Iterator[bytes]:
    """The bytes from `start` to `end`; fewer if the file was truncated meanwhile, which clients notice."""
    while start < end and (data := read(start, min(_PIECE_BYTES, end - start))):
        yield data
        start += len(data)


def _masked(pieces: Iterator[bytes], start: int, mask: Callable[[int, bytes], bytes]) -> Iterator[bytes]:
    for data in pieces:
        yield mask(start, data)
        start += len(data)


MAX_LIST_SIZE = 5000


@dataclass(frozen=True)
class NamePage:
    """Names on a page, and the marker of the next page."""

    items: Sequence[str]
    next: str


def name_page(call: ApiCall, names: Collection[str]) -> NamePage:
    """The requested page of sorted names."""
    size = call.integer_parameter("maxresults", MAX_LIST_SIZE, minimum=1, maximum=MAX_LIST_SIZE)
    try:
        marker = call.query.get("marker", "").encode("ascii")
        first = base64.b64decode(marker, altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        raise StorageApiError(400, "OutOfRangeQueryParameterValue", "The marker is invalid.") from None
    rest = [name for name in sorted(names) if name >= first]
    next_marker = base64.urlsafe_b64encode(rest[size].encode()).decode() if len(rest) > size else ""
    return NamePage(rest[:size], next_marker)


def list_response(
    call: ApiCall, lists: Mapping[str, Sequence[str]], next_marker: str, **attributes: str
) -> ApiResponse:
    """The response with one list, or several with the same page: element → its entries as XML."""
    attributes = {"ServiceEndpoint": f"{call.origin}/", **attributes}
    attribute_text = "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items())
    echoed = "".join(
        f"<{element}>{escape(call.query[name])}</{element}>"
        for name, element in (("marker", "Marker"), ("prefix", "Prefix"), ("maxresults", "MaxResults"))
        if call.query.get(name)
    )
    content = "".join(f"<{element}>{''.join(entries)}</{element}>" for element, entries in lists.items())
    body = (
        f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults{attribute_text}>{echoed}'
        f"{content}<NextMarker>{next_marker}</NextMarker></EnumerationResults>"
    )
    return ApiResponse(200, body=body.encode(), headers={"Content-Type": "application/xml"})


def name_element(name: str) -> str:
    """A name as XML; characters that XML cannot hold are percent-encoded, as Azure does."""
    if all(sign.isprintable() or sign == "\t" for sign in name):
        return f"<Name>{escape(name)}</Name>"
    return f'<Name Encoded="true">{quote(name)}</Name>'
