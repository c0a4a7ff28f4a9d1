"""Reconciles a server's backend in the background: its clients may only read, and reading starts nothing."""

from __future__ import annotations

import logging
import threading

from batchai_magics.backends.base import Backend
from batchai_magics.errors import BatchAIError

INTERVAL_S = 1.0
_LOG = logging.getLogger(__name__)


class BackgroundReconciliation:
    """Calls `Backend.reconcile` every second in a thread of its own, until it is closed."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="batchai-reconcile")
        self._thread.start()

    def close(self) -> None:
        """Returns once no call is running; the backend may then be closed."""
        self._is_closed.set()
        self._thread.join()

    def _run(self) -> None:
        last = ""
        while not self._is_closed.wait(INTERVAL_S):
            try:
                self._backend.reconcile()
                last = ""
            except BatchAIError as error:  # the next call tries again; a persistent error is logged once
                if str(error) != last:
                    _LOG.warning("cannot reconcile: %s", error)
                last = str(error)
