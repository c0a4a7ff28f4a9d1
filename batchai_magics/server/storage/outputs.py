"""What jobs wrote, read by whoever has its address: from any backend, also one that has no shares."""

from __future__ import annotations

from collections.abc import Iterator

from batchai_magics.server.batchai import log_secrets
from batchai_magics.server.batchai.output import file_at
from batchai_magics.server.call import Answer
from batchai_magics.server.storage.content import content, wanted
from batchai_magics.server.storage.context import Asked
from batchai_magics.server.storage.errors import StorageRefusal
from batchai_magics.server.storage.request import Span, span_of

_PIECE = 1 << 20
_TYPE = {"Content-Type": "application/octet-stream", "Cache-Control": "no-cache"}
_KINDS = {"file": {**_TYPE, "x-ms-type": "File"}, "blob": {**_TYPE, "x-ms-blob-type": "BlockBlob"}}


def read(asked: Asked) -> Answer:
    """A file that a job wrote, or a range of it. What is short is read at one go."""
    backend, file = asked.service.backend, file_at(asked.service, asked.path)
    if file is None:
        raise StorageRefusal(404, "ResourceNotFound", "The specified resource does not exist.")
    is_head, span = asked.call.method == "HEAD", span_of(asked.call)
    first = backend.read(file, span.start if span else 0, 0 if is_head else _length(span))
    headers = {**_KINDS[asked.resource.service], "ETag": f'"0x{first.size:X}"'}
    if is_head:
        return Answer(200, headers={**headers, "Content-Length": str(first.size)}, body=b"")

    mask = log_secrets.for_anybody(asked.service, asked.path)

    def pieces(span: Span) -> Iterator[bytes]:
        start, end, data = span.start, span.end or 0, first.data[: (span.end or 0) - span.start]
        while data:
            yield mask(start, data) if mask else data
            start += len(data)
            data = backend.read(file, start, min(_PIECE, end - start)).data if start < end else b""

    return content(headers, first.size, wanted(asked.call, first.size), pieces)


def _length(span: Span | None) -> int:
    """How much of a range is read at first."""
    return min(_PIECE, span.end - span.start) if span and span.end else _PIECE
