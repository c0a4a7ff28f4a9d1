"""Where the runs of a log begin: a job may start its program several times, to train and then to evaluate."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from batchai_magics.metrics.measurement import ATTEMPT, TOTAL, Fact
from batchai_magics.metrics.measurement_table import MeasurementTable

HEADER_KEYS = ("tensorflow", "model")
"""The keys of facts that may start a run."""


class RunStarts:
    """Finds the headers that start another run, incrementally.

    A header starts a run if its rank has printed its total or, with unknown ranks, if as many totals were
    printed as the run has ranks: buffered ranks print one after the other.
    """

    def __init__(self) -> None:
        self._facts: list[Fact] = []  # since the run, or the attempt, began

    def is_next(self, fact: Fact) -> bool:
        """Take the next fact; returns whether another run of the attempt begins with it."""
        begins = fact.key in HEADER_KEYS and self._has_ended(fact)
        if begins or fact.key == ATTEMPT:
            self._facts.clear()
        self._facts.append(fact)
        return begins

    def split(self, table: MeasurementTable) -> Iterator[MeasurementTable]:
        """The next records by run; the first part, which may be empty, goes on with the run before."""
        begins = [row for row, fact in table.facts if self.is_next(fact)]
        for begin, end in pairwise([0, *begins, table.row_count]):
            yield table.between(begin, end)

    def _has_ended(self, header: Fact) -> bool:
        """Whether the run, or its rank, has ended before a header."""
        totals = [previous.rank for previous in self._facts if previous.key == TOTAL]
        if header.rank is not None:
            return header.rank in totals
        promised = max(map(count_ranks, self._facts), default=0)
        return bool(totals) and len(totals) >= promised


def count_ranks(record: Fact) -> int:
    """The number of processes in a header's `Devices` line; 0 for any other line."""
    return record.value.count("horovod/") if record.key == "devices" else 0
