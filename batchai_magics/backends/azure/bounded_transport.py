"""The HTTP transport of Azure's clients, which stops reading a response at a size limit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from batchai_magics.errors import ServiceError

if TYPE_CHECKING:
    from azure.core.pipeline.transport import RequestsTransport

MAX_RESPONSE_BYTES = 128 << 20  # decompressed; the records of a run, 64 MiB, are sent as base64
_ENCODINGS = "gzip, deflate"  # one at a time, each read expands only to the thousandfold
_BLOCK_BYTES = 64 << 10  # of a streamed response; Azure's default of 4 KiB costs more than all else


def bounded_transport(**options: Any) -> RequestsTransport:
    """A transport with these options that raises a ServiceError for a body over `MAX_RESPONSE_BYTES`."""
    from azure.core.pipeline.transport import RequestsTransport

    transport = RequestsTransport(connection_data_block_size=_BLOCK_BYTES, **options)
    transport.open()
    session: Any = transport.session
    session.headers["Accept-Encoding"] = _ENCODINGS
    session.hooks["response"].append(_bound)
    return transport


def unbounded() -> dict[str, Any]:
    """The option of a request whose response never ends; its reader must bound what it keeps."""
    return {"hooks": {"response": [lambda *_, **__: None]}}  # in place of the session's


def check_size(url: str, size_bytes: int) -> None:
    """Raises ServiceError (code ResponseTooLarge) for more than `MAX_RESPONSE_BYTES` from a URL."""
    if size_bytes <= MAX_RESPONSE_BYTES:
        return
    parts = urlsplit(url)
    text = f"{parts.scheme}://{parts.netloc} sends more than {MAX_RESPONSE_BYTES >> 20} MiB for {parts.path}"
    hint = "Nothing of it was used. Is the endpoint right?"
    raise ServiceError(text, code="ResponseTooLarge", hint=hint)


def _bound(response: Any, **_: Any) -> None:
    """Counts the bytes of a body while it is read; everything reads it through `raw.stream`."""
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    response.raw.stream = partial(
        _bounded_chunks, response, response.raw.stream, encoding in _ENCODINGS.split(", ")
    )


def _bounded_chunks(
    response: Any,
    stream: Callable[..., Iterator[bytes]],
    may_decode: bool,
    size: int,
    decode_content: bool | None = None,
) -> Iterator[bytes]:
    total = 0
    with contextlib.closing(response):
        for chunk in stream(size, decode_content=decode_content and may_decode):
            total += len(chunk)
            check_size(response.url, total)
            yield chunk
