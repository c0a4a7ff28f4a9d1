"""Uploads that nobody goes on with: what is not whole and has not grown for a day is deleted."""

from __future__ import annotations

import contextlib
import math
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

from batchai_magics.backends.base.default_transfers import STALE_S
from batchai_magics.backends.folders import entries
from batchai_magics.models.execution import FileKind
from batchai_magics.models.file_names import name_of

_EVERY_S = 3600.0


class StaleParts:
    """The files below a folder that are on their way to shares."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._due_s = -math.inf  # by the monotonic clock

    def drop(self) -> None:
        """Deletes those that are stale. Every upload may ask for it: the disk is looked at once an hour."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return
        self._due_s = now_s + _EVERY_S
        _drop_below(self._root, self._root, datetime.now(timezone.utc) - timedelta(seconds=STALE_S))


def _drop_below(root: Path, folder: Path, before: datetime) -> None:
    for entry in entries.below(root, folder):
        path = folder / name_of(entry.name)
        if entry.kind is FileKind.DIRECTORY:
            _drop_below(root, path, before)
        elif entry.modified < before:
            with contextlib.suppress(OSError):  # another one was faster, or it is somebody else's
                path.unlink()
