"""How much one request, and all of them together, may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The bounds of a server; the defaults are for a team."""

    header_bytes: int = 32 << 10
    header_s: float = 20.0  # from a connection's first byte to the end of a request's headers
    body_bytes: int = 1 << 20  # of a description
    range_bytes: int = 4 << 20  # of a file, in one request
    blob_bytes: int = 256 << 20  # of a blob, in one request
    body_s: float = 120.0  # for a body to come
    send_s: float = 120.0  # for a piece of an answer to go
    streams: int = 200  # requests at once; those over it are told to come again
    threads: int = 32  # calls of the backend at once, and as many of storage
    wait_s: float = 30.0  # the longest that a request may wait for news
