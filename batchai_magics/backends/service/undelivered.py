"""The notifications of ended runs that nodes could not deliver: the next client delivers them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.service.runner import Run, RunStatus
from batchai_magics.errors import BatchAIError


class UndeliveredNotifications:
    """Checks the outboxes of a home once, and again whenever a run is seen to have ended."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._open: set[str] = set()
        self._is_due = True
        self._thread: threading.Thread | None = None

    def observe(self, runs: Sequence[Run], statuses: Sequence[RunStatus]) -> None:
        """Takes the statuses that were just read."""
        ended = {run.guid for run, status in zip(runs, statuses, strict=True) if not status.is_open}
        self._is_due |= not self._open.isdisjoint(ended)
        self._open = (self._open | {run.guid for run in runs}) - ended

    def deliver(self) -> None:
        """Delivers in a thread, which ends with the process."""
        if not self._is_due or (self._thread and self._thread.is_alive()):
            return
        self._is_due = False
        self._thread = threading.Thread(target=self._deliver, daemon=True, name="batchai-notify")
        self._thread.start()

    def _deliver(self) -> None:
        from batchai_magics.backends.folders import notification_sending

        with contextlib.suppress(OSError, ValueError, BatchAIError):  # the next client tries again
            for folder in list(self._layout.outboxes.iterdir()):
                notification_sending.deliver_left(self._layout.job(folder.name))
