"""Abandoned uploads: incomplete files that have not grown for a day are deleted."""

from __future__ import annotations

import contextlib
import math
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

from batchai_magics.backends.base.default_transfers import STALE_S
from batchai_magics.backends.folders import entries
from batchai_magics.models.file_names import name_of
from batchai_magics.models.job_execution import FileKind

_EVERY_S = 3600.0


class StaleParts:
    """The incomplete uploads below a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._due_s = -math.inf  # on the monotonic clock

    def drop(self) -> None:
        """Deletes stale uploads; does nothing if called again within an hour."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return
        self._due_s = now_s + _EVERY_S
        _drop_below(self._root, self._root, datetime.now(timezone.utc) - timedelta(seconds=STALE_S))


def _drop_below(root: Path, folder: Path, before: datetime) -> None:
    for entry in entries.scan(root, folder):
        path = folder / name_of(entry.name)
        if entry.kind is FileKind.DIRECTORY:
            _drop_below(root, path, before)
        elif entry.modified < before:
            with contextlib.suppress(OSError):  # another process deleted it, or it is another user's
                path.unlink()
