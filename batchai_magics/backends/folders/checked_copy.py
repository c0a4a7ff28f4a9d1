"""Copies a file, verifying each block that was written; an interrupted copy is resumed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterator
from pathlib import Path

SMALL_BYTES = 1 << 18  # files up to this size are read at once, and not resumed
BLOCK_BYTES = 1 << 18  # fits into the CPU cache between reading and comparing


class ChangedError(Exception):
    """The source changed while it was read."""


class DamagedError(Exception):
    """The data written differs from the data read."""


def copy_file(source: str, part: str, *, mode: int) -> Generator[int, None, os.stat_result]:
    """Copies a file to `part`; yields the number of bytes of each step, and returns the status of the copy.

    Raises ChangedError or DamagedError after deleting `part`.
    """
    source_fd, status = _open_regular(source)
    try:
        part_fd = _open_part(part, mode)
        try:
            yield from _copy_content(source_fd, status, part_fd)
            return os.fstat(part_fd)
        except (ChangedError, DamagedError):
            Path(part).unlink(missing_ok=True)
            raise
        finally:
            os.close(part_fd)
    finally:
        os.close(source_fd)


def _copy_content(source_fd: int, before: os.stat_result, part_fd: int) -> Iterator[int]:
    if before.st_size <= SMALL_BYTES:
        yield from _copy_small(source_fd, part_fd, before.st_size)
    else:
        yield from _copy_large(source_fd, part_fd, before.st_size)
    after = os.fstat(source_fd)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise ChangedError


def _copy_small(source_fd: int, part_fd: int, size: int) -> Iterator[int]:
    data = os.pread(source_fd, size + 1, 0)
    if len(data) != size:
        raise ChangedError
    _write(part_fd, data, 0)
    if os.pread(part_fd, size + 1, 0) != data:
        os.ftruncate(part_fd, size)  # an earlier attempt may have left a larger file
        if os.pread(part_fd, size + 1, 0) != data:
            raise DamagedError
    yield size


def _copy_large(source_fd: int, part_fd: int, size: int) -> Iterator[int]:
    """Copies what is missing from `part` or differs: each block is read back and compared."""
    os.ftruncate(part_fd, min(size, os.fstat(part_fd).st_size))
    block, buffer = bytearray(BLOCK_BYTES), bytearray(BLOCK_BYTES)
    at = 0
    while count := os.preadv(source_fd, [block], at):
        if not _is_same(part_fd, at, block, buffer, count):
            _write(part_fd, memoryview(block)[:count], at)
            if not _is_same(part_fd, at, block, buffer, count):
                raise DamagedError
        at += count
        yield count


def _is_same(descriptor: int, at: int, block: bytearray, buffer: bytearray, count: int) -> bool:
    """Whether a file has the first `count` bytes of a block at `at`; `buffer` is reused."""
    if os.preadv(descriptor, [buffer], at) < count:
        return False
    return block == buffer if count == len(block) else block[:count] == buffer[:count]


def _write(descriptor: int, data: bytes | memoryview, at: int) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(descriptor, view, at)
        view, at = view[count:], at + count


def _open_regular(path: str) -> tuple[int, os.stat_result]:
    """Opens a regular file for reading, without blocking; returns its status too."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return descriptor, status
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no regular file")


def _open_part(part: str, mode: int) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(part, flags, mode)
    except FileNotFoundError:
        Path(part).parent.mkdir(parents=True, exist_ok=True)
        return os.open(part, flags, mode)
