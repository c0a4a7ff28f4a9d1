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
    body_s: float = 60.0  # for a body to come, and for a long one as much more as `body_bytes_s` gives it
    body_bytes_s: int = 64 << 10  # the lowest rate at which a long body may come
    body_idle_s: float = 30.0  # between two pieces of a body
    bodies: int = 96  # unfinished request bodies at once
    bodies_of_user: int = 32
    bodies_of_address: int = 64
    memory_bytes: int = 128 << 20  # of all request bodies that are held in memory
    memory_bytes_of_user: int = 64 << 20
    disk_bytes: int = 4 << 30  # of all request bodies that are spooled to disk
    disk_bytes_of_user: int = 1 << 30
    send_s: float = 120.0  # for a piece of an answer to go
    streams: int = 200  # requests at once; those over it are told to come again
    threads: int = 32  # calls of the backend at once, and as many of storage
    wait_s: float = 30.0  # the longest that a request may wait for news
