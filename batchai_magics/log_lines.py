"""The bytes of a log: where its lines start and end, what a terminal shows of them, who wrote them and when.

A newline ends a line. A carriage return within one moves a terminal back to its start, where a progress bar
overwrites what was shown. Standard library only, below everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import AnyStr, NamedTuple


class Span(NamedTuple):
    """Process `rank` wrote the bytes `start` to `end` of a file (absolute offsets, `end` excluded)."""

    start: int
    end: int
    rank: int


class WriteTime(NamedTuple):
    """The bytes from the absolute offset `start` on were written at `time`, in seconds since 1970."""

    start: int
    time: float


class RedactedSpan(NamedTuple):
    """The bytes `start` to `end` (absolute offsets, `end` excluded) are the value of a secret of the job."""

    start: int
    end: int


class LogBlock(NamedTuple):
    """Bytes of a log from `offset` on: who wrote which of them when, and which are secrets."""

    data: bytes
    offset: int
    spans: Sequence[Span] = ()
    times: Sequence[WriteTime] = ()
    hidden: Sequence[RedactedSpan] = ()


def line_start(data: bytes, at: int) -> int:
    """The start of the line that the byte at `at` belongs to."""
    return data.rfind(b"\n", 0, at) + 1


def line_end(data: bytes | bytearray, at: int = 0) -> int:
    """The position after the first newline from `at` on; 0 without one."""
    return data.find(b"\n", at) + 1


def whole_lines_end(data: bytes) -> int:
    """The position after the last newline; 0 without one."""
    return data.rfind(b"\n") + 1


def line_bounds(data: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each line; the last one may lack its newline."""
    start, size = 0, len(data)
    while start < size:
        end = line_end(data, start) or size
        yield start, end
        start = end


def state_start(data: bytes, at: int | None = None) -> int:
    r"""The position after the last `\n` or `\r` before `at`: a terminal began to write there."""
    return max(data.rfind(b"\n", 0, at), data.rfind(b"\r", 0, at)) + 1


def lines_at_end(data: bytes, count: int) -> list[bytes]:
    r"""The last `count` lines with their ends; `\r` ends one too, as each state of a progress bar is one."""
    return data.splitlines(keepends=True)[-count:] if count > 0 else []


def visible_text(line: AnyStr) -> AnyStr:
    """The part of a line that a terminal finally shows, without the end of the line."""
    if isinstance(line, bytes):
        return line.rstrip(b"\r\n").rpartition(b"\r")[2]
    return line.rstrip("\r\n").rpartition("\r")[2]


def shown_start(line: bytes) -> int:
    """The start of the part of a line that a terminal finally shows."""
    return line.rstrip(b"\r\n").rfind(b"\r") + 1
