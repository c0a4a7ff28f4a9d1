"""Room that is kept for bad times: what ends or frees something takes it when the disk is full."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from batchai_magics.backends.service import private_files

RESERVE_BYTES = 1 << 20
SLICE_BYTES = 1 << 16  # given at a time, since whoever filled the disk may take it first


class DiskReserve:
    """A file of nothing beside the database. Any process may give of it, and make it whole again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def size_bytes(self) -> int:
        """How much is left; 0 when there is none."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def allocate(self) -> None:
        """Makes it whole; OSError when the disk has no room for that, which keeps what there was."""
        if self.size_bytes >= RESERVE_BYTES:
            return
        with open(self.path, "ab", buffering=0, opener=private_files.opener) as file:
            while (missing := RESERVE_BYTES - file.seek(0, os.SEEK_END)) > 0:
                file.write(bytes(min(missing, SLICE_BYTES)))

    def refill(self) -> None:
        """Makes it as whole as the disk has room, if it was ever made."""
        with contextlib.suppress(OSError):
            if self.path.exists():
                self.allocate()

    def release_slice(self) -> bool:
        """Gives a slice back to the disk; False when nothing was left."""
        size = self.size_bytes
        with contextlib.suppress(OSError):
            os.truncate(self.path, max(size - SLICE_BYTES, 0))
        return size > 0

    def delete(self) -> None:
        """Removes it."""
        with contextlib.suppress(OSError):
            self.path.unlink()
