"""What the reader of a log is told: numbers that were not read, and matches that are no numbers."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

from batchai_magics.metrics.reading.metric_suggestions import MAX_SCAN_BYTES, MetricSuggester
from batchai_magics.metrics.reading.user_patterns import PatternMismatch
from batchai_magics.metrics.record import HeaderRecord, Record


class MetricsWarning(UserWarning):
    """A log has numbers that were not read, or a pattern matched what is not a number."""


class LogStart:
    """The first bytes of a log, kept until it is known whether it has metrics."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._bytes_left = MAX_SCAN_BYTES

    def add(self, data: bytes) -> None:
        """Add the next bytes of the log."""
        if self._bytes_left > 0:
            self._pieces.append(data[: self._bytes_left])
            self._bytes_left -= len(data)

    @property
    def data(self) -> bytes:
        """The bytes."""
        return b"".join(self._pieces)


def notices_of(
    found: Iterable[PatternMismatch], records: Sequence[Record], start: LogStart
) -> tuple[str, ...]:
    """The notices about a log, given its records and the matches that are no numbers; one line each."""
    mismatches = tuple(map(str, found))
    if any(not isinstance(record, HeaderRecord) for record in records):
        return mismatches
    suggester = MetricSuggester()
    suggester.scan(start.data)
    return (*mismatches, str(suggester.suggestion)) if suggester.suggestion else mismatches


def warn_of(notices: Iterable[str]) -> None:
    """Show notices as warnings of the caller's caller."""
    for notice in notices:
        warnings.warn(notice, MetricsWarning, stacklevel=3)
