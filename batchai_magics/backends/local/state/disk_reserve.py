"""Disk space reserved for transactions that end or free something when the disk is full."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from batchai_magics.backends.service import private_files

RESERVE_BYTES = 1 << 20
SLICE_BYTES = 1 << 16  # released at a time: other processes may take the space first


class DiskReserve:
    """A placeholder file beside the database; any process may shrink or refill it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def size_bytes(self) -> int:
        """The remaining size; 0 without a file."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def allocate(self) -> None:
        """Allocates it fully; on OSError (full disk) keeps what there is."""
        if self.size_bytes >= RESERVE_BYTES:
            return
        with open(self.path, "ab", buffering=0, opener=private_files.opener) as file:
            while (missing := RESERVE_BYTES - file.seek(0, os.SEEK_END)) > 0:
                file.write(bytes(min(missing, SLICE_BYTES)))

    def refill(self) -> None:
        """Refills it as far as there is space, if it exists."""
        with contextlib.suppress(OSError):
            if self.path.exists():
                self.allocate()

    def release_slice(self) -> bool:
        """Frees a slice of it; False if nothing was left."""
        size = self.size_bytes
        with contextlib.suppress(OSError):
            os.truncate(self.path, max(size - SLICE_BYTES, 0))
        return size > 0

    def delete(self) -> None:
        """Deletes the file."""
        with contextlib.suppress(OSError):
            self.path.unlink()
