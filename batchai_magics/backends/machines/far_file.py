"""A file of another machine, opened to read: pieces of it are kept while what is read is near."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from batchai_magics.backends.service.elsewhere import Status

PIECE_BYTES = 1 << 20


class FarFile(io.RawIOBase):
    """A file that `read` gives pieces of, by offset and limit, with the file's status."""

    def __init__(self, read: Callable[[int, int], tuple[Status, bytes]]) -> None:
        super().__init__()
        self._read, self._at = read, 0
        self._start = 0
        status, self._kept = read(0, PIECE_BYTES)
        self._size = status.st_size

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Where to read from."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        """Where the next byte is read from."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Reads the next bytes."""
        view = memoryview(buffer).cast("B")
        data = self._near(len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _near(self, count: int) -> bytes:
        inside = self._at - self._start
        if not 0 <= inside < len(self._kept):
            is_end = self._at >= self._size and self._at >= self._start + len(self._kept)
            if is_end and len(self._kept) < PIECE_BYTES:
                return b""
            self._start, inside = self._at, 0
            _, self._kept = self._read(self._at, PIECE_BYTES)
        return self._kept[inside : inside + count]
