"""The headline metric of a run, in a file of its records, for notifications."""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import chain, count
from pathlib import Path

from batchai_magics.backends.service import private_files
from batchai_magics.metrics.measurement import Record
from batchai_magics.metrics.runs.metric_traits import MetricPreferences
from batchai_magics.metrics.runs.run_metrics import run_metrics
from batchai_magics.models.runs.scalar_export import ScalarPoint

INTERVAL_S = 5.0  # between two writes
MAX_RECENT = 1024  # records that are kept of each metric


class HeadlineFile:
    """Keeps the last records of each metric, and writes the headline as lists have it, over all ranks.

    Args:
        file: The file.
        chosen: The metric that the user has chosen; empty without one.
    """

    def __init__(self, file: Path, chosen: str) -> None:
        self._file, self._due_s = file, 0.0
        self._preferences = MetricPreferences(chosen)
        self._recent: dict[str, deque[tuple[int, Record]]] = defaultdict(lambda: deque(maxlen=MAX_RECENT))
        self._numbers = count()  # of records, in the order in which they came
        self._steps: dict[str, int] = {}

    def add(self, records: Iterable[Record], points: Sequence[ScalarPoint]) -> None:
        """Adds records, and the points that were made of them."""
        for record in records:
            name = getattr(record, "name", "") or type(record).__name__
            self._recent[name].append((next(self._numbers), record))
        self._steps.update((point.name, point.step) for point in points)
        if points and time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + INTERVAL_S
            self.write()

    def write(self) -> None:
        """Writes the file, if any metric is known; a full disk is no error."""
        recent = sorted(chain.from_iterable(self._recent.values()), key=lambda each: each[0])
        metric = run_metrics((record for _, record in recent), self._preferences).headline
        summary = metric.summary if metric else None
        if summary is None:
            return
        value = summary.headline_value
        told = {
            "name": summary.name,
            "value": value if math.isfinite(value) else str(value),
            "step": self._steps.get(summary.name, int(summary.last_step)),
        }
        try:
            private_files.write(self._file, json.dumps(told))
        except OSError:
            self._due_s = math.inf  # it is not worth another attempt
