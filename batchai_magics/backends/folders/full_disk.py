"""A folder without room: what may wait is left for later, what cannot is refused with a way out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from batchai_magics.errors import DISK_FULL, StorageError, is_disk_full


@contextlib.contextmanager
def left_for_later() -> Iterator[None]:
    """Within it, what the folder has no room for is not written: a later look makes up for it."""
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise


@contextlib.contextmanager
def refused(home: Path, *, setting: str) -> Iterator[None]:
    """Within it, a change that the folder has no room for is a StorageError that says what to do.

    `setting` is what chooses the folder.
    """
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
        hint = f"Free some room there, or set {setting} to a folder that has some; then try again."
        text = f"{home} is full ({error.strerror}): nothing was made or submitted"
        raise StorageError(text, code=DISK_FULL, hint=hint) from error
