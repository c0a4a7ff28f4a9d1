"""Records of a log as the points that exports write. Standard library only."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator

from batchai_magics.metrics.record import Record
from batchai_magics.metrics.runs.tidy_table import numbers
from batchai_magics.records.scalar_export import ScalarPoint


class MetricPoints:
    """Converts records to points as they arrive.

    Numbers without a step are counted from 1, by rank and name; those without a time get the last known one.
    """

    def __init__(self, started: float) -> None:
        self._time = started
        self._counts: defaultdict[tuple[str, int | None], int] = defaultdict(int)

    def of(self, records: Iterable[Record]) -> Iterator[ScalarPoint]:
        """Yields the points of the next records."""
        for number in numbers(records):
            series = (number.metric, number.rank)
            self._counts[series] += 1
            step = self._counts[series] if number.step is None else number.step
            self._time = self._time if number.wall_time is None else number.wall_time
            yield ScalarPoint(number.metric, number.value, step, self._time, number.rank)

    def now(self) -> None:
        """Gives numbers without a time the current one."""
        self._time = time.time()
