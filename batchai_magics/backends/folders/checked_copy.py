"""One file copied: each piece is compared with what was written; it goes on where it stopped."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterator
from pathlib import Path

SMALL_BYTES = 1 << 18  # up to here a file is held in memory, and not gone on with
PIECE_BYTES = 1 << 18  # which the processor keeps near from reading to comparing


class ChangedError(Exception):
    """The file became another one while it was read."""


class DamagedError(Exception):
    """What was written is not what was read."""


def copied(source: str, part: str, *, mode: int) -> Generator[int, None, os.stat_result]:
    """Copies a file to `part`; gives how many bytes are done as it goes, and at last what was made.

    Raises ChangedError or DamagedError, and then there is no `part` any more.
    """
    reading, found = _regular(source)
    try:
        writing = _opened(part, mode)
        try:
            yield from _whole(reading, found, writing)
            return os.fstat(writing)
        except (ChangedError, DamagedError):
            Path(part).unlink(missing_ok=True)
            raise
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _whole(reading: int, before: os.stat_result, writing: int) -> Iterator[int]:
    if before.st_size <= SMALL_BYTES:
        yield from _at_once(reading, writing, before.st_size)
    else:
        yield from _in_pieces(reading, writing, before.st_size)
    after = os.fstat(reading)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise ChangedError


def _at_once(reading: int, writing: int, size: int) -> Iterator[int]:
    data = os.pread(reading, size + 1, 0)
    if len(data) != size:
        raise ChangedError
    _write(writing, data, 0)
    if os.pread(writing, size + 1, 0) != data:
        os.ftruncate(writing, size)  # something larger may have been left there
        if os.pread(writing, size + 1, 0) != data:
            raise DamagedError
    yield size


def _in_pieces(reading: int, writing: int, size: int) -> Iterator[int]:
    """Copies what the part lacks, or has otherwise: each piece of it is read back and compared."""
    os.ftruncate(writing, min(size, os.fstat(writing).st_size))
    piece, there = bytearray(PIECE_BYTES), bytearray(PIECE_BYTES)
    at = 0
    while count := os.preadv(reading, [piece], at):
        if not _is_same(writing, at, piece, there, count):
            _write(writing, memoryview(piece)[:count], at)
            if not _is_same(writing, at, piece, there, count):
                raise DamagedError
        at += count
        yield count


def _is_same(descriptor: int, at: int, piece: bytearray, there: bytearray, count: int) -> bool:
    """Whether a file has the first `count` bytes of a piece at `at`; `there` is room to read it."""
    if os.preadv(descriptor, [there], at) < count:
        return False
    return piece == there if count == len(piece) else piece[:count] == there[:count]


def _write(descriptor: int, data: bytes | memoryview, at: int) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(descriptor, view, at)
        view, at = view[count:], at + count


def _regular(path: str) -> tuple[int, os.stat_result]:
    """A regular file opened to read, and what it is then; nothing is waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode):
        return descriptor, found
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no regular file")


def _opened(part: str, mode: int) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(part, flags, mode)
    except FileNotFoundError:
        Path(part).parent.mkdir(parents=True, exist_ok=True)
        return os.open(part, flags, mode)
