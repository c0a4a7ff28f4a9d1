"""Handling of a full disk: optional writes are skipped, others fail with advice."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from batchai_magics.errors import DISK_FULL, StorageError, is_disk_full


@contextlib.contextmanager
def left_for_later() -> Iterator[None]:
    """Within the context, writes are skipped if the disk is full; they are repeated on the next poll."""
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise


@contextlib.contextmanager
def refused(home: Path, *, setting: str) -> Iterator[None]:
    """Within the context, a full disk raises a StorageError that says what to do.

    `setting` is the setting that selects the folder.
    """
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
        hint = f"Free some space there, or set {setting} to a folder that has some; then try again."
        text = f"{home} is full ({error.strerror}): nothing was created or submitted"
        raise StorageError(text, code=DISK_FULL, hint=hint) from error
