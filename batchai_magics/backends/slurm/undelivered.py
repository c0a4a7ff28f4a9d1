"""Notifications that no node could deliver: the next client that looks does, beside what it was asked."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.service.runner import Run, RunStatus
from batchai_magics.backends.slurm.node.run_files import RunFiles
from batchai_magics.errors import BatchAIError


class Undelivered:
    """Looks into the outboxes of a home at first, and whenever a run is seen to end."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._open: set[str] = set()
        self._is_first = True
        self._thread: threading.Thread | None = None

    def look(self, runs: Sequence[Run], statuses: Sequence[RunStatus]) -> None:
        """Takes the statuses that were just read; delivers in a thread, which ends with the process."""
        ended = {run.guid for run, status in zip(runs, statuses, strict=True) if not status.is_open}
        is_news = self._is_first or not self._open.isdisjoint(ended)
        self._open = (self._open | {run.guid for run in runs}) - ended
        if not is_news or (self._thread and self._thread.is_alive()):
            return
        self._is_first = False
        self._thread = threading.Thread(target=self._deliver, daemon=True, name="batchai-notify")
        self._thread.start()

    def _deliver(self) -> None:
        from batchai_magics.backends.slurm.node import notification_sending

        with contextlib.suppress(OSError, ValueError, BatchAIError):  # the next client tries again
            for folder in list(self._layout.outboxes.iterdir()):
                notification_sending.deliver_left(RunFiles(self._layout.job(folder.name).root))
