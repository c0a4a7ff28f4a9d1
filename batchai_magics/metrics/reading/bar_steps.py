"""Finds the step of a printed dict without one, as Transformers prints it: the count of its progress bar.

The bar is redrawn right after the dict. Other redraws are rare (every tenth of a second), so the count before
the dict may be too low. If the run has a whole number of epochs, the dict's epoch decides between the counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from batchai_magics.metrics.measurement import Measurement, Record

_MAX_LINES = 20  # between a dict and its bar, some of them blank or of other ranks
_EPOCH_ERROR = 0.0051  # epochs are printed with two decimals


class BarCount(NamedTuple):
    """What a bar showed when it was drawn, in seconds since the epoch: `done` of `total` steps."""

    time: float
    done: int
    total: float


class UnplacedDict(NamedTuple):
    """A printed dict without a step or a bar: its rank, its epoch, and when it was printed."""

    rank: int | None
    epoch: float | None
    time: float


class HeldDict(NamedTuple):
    """The numbers of a dict, with the count of the bar above it, until the bar is drawn again."""

    line: int
    records: list[Measurement]


class BarSteps:
    """Finds the steps of a run's dicts, or of one rank's; all dicts have the same number of epochs."""

    def __init__(self) -> None:
        self._epochs: set[int] = set()  # possible numbers of epochs

    def numbers_at_bar(self, held: HeldDict, line: int, done: int | None, total: float) -> list[Record]:
        """The numbers of a dict at the step that a bar on this line implies; unchanged without a near bar."""
        before = held.records[0].step or 0
        if done is None or line - held.line > _MAX_LINES:
            return [*held.records]
        step = self.likeliest([before, max(done, before)], total, held.records[0].epoch)
        return [record._replace(step=step) for record in held.records]

    def likeliest(self, counts: Sequence[int], total: float, epoch: float | None) -> int:
        """The count that fits the epoch: the last one that does, else the last one."""
        self.learn(counts, total, epoch)
        fitting = [count for count in counts if _epochs(count, total, epoch) in self._epochs]
        return (fitting or counts)[-1]

    def learn(self, counts: Sequence[int], total: float, epoch: float | None) -> None:
        """Narrow the possible numbers of epochs by a dict with one of these counts."""
        possible = {number for count in counts if (number := _epochs(count, total, epoch))}
        self._epochs = self._epochs & possible or self._epochs or possible


def _epochs(count: int, total: float, epoch: float | None) -> int | None:
    """The number of epochs in `total` steps if `count` steps are `epoch`; None if it is not an integer."""
    if count <= 0 or not epoch:
        return None
    epochs = epoch * total / count
    error = epochs * _EPOCH_ERROR / epoch + 0.01
    is_whole = round(epochs) >= epoch and abs(epochs - round(epochs)) <= error
    return round(epochs) if is_whole else None
