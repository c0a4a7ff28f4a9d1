"""Speed against number of processes: one curve, its points, and what grew along it."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Growth(str, enum.Enum):
    """What grows with the number of processes."""

    WEAK = "weak"  # the work: the batch of a process stays
    STRONG = "strong"  # nothing: the batch of a step stays, and processes share it
    MIXED = "mixed"  # batches differ in another way; efficiencies tell little
    UNKNOWN = "unknown"  # the logs tell no batch size


_KINDS = {
    Growth.WEAK: "weak scaling",
    Growth.STRONG: "strong scaling",
    Growth.MIXED: "neither weak nor strong scaling",
    Growth.UNKNOWN: "batch sizes unknown",
}


@dataclass(frozen=True, slots=True)
class Point:
    """The runs of one model with one number of processes.

    `images_per_sec` is the steady speed of all processes, the mean over the runs; `ideal` what the smallest
    number of processes would come to if each further one added as much; `efficiency_percent` the one in
    proportion to the other; `speedup` the speed in proportion to that of the smallest number. The
    uncertainties are standard errors.
    """

    model: str
    processes: int
    images_per_sec: float
    uncertainty: float
    ideal: float
    speedup: float
    efficiency_percent: float
    efficiency_uncertainty: float
    batch_size_per_device: int | None
    batch_size_global: int | None
    runs: tuple[str, ...]


@dataclass(frozen=True)
class Curve:
    """The points of one model, by number of processes; as text, what they come to."""

    label: str
    growth: Growth
    is_on_gpus: bool
    points: tuple[Point, ...]

    @property
    def kind(self) -> str:
        """What grew, in words."""
        return _KINDS[self.growth]

    @property
    def batch(self) -> str:
        """The batch size that was kept, in words; empty where none was."""
        first = self.points[0]
        if self.growth is Growth.WEAK:
            return f"batch of {first.batch_size_per_device} per process"
        return f"batch of {first.batch_size_global} in all" if self.growth is Growth.STRONG else ""

    @property
    def batches(self) -> str:
        """What was kept, in words: weak or strong scaling, and the batch size."""
        return f"{self.kind}, {self.batch}" if self.batch else self.kind

    def __str__(self) -> str:
        first, last = self.points[0], self.points[-1]
        if first is last:
            count = f"{first.processes} process{'' if first.processes == 1 else 'es'}"
            known = f"{first.images_per_sec:,.1f} images/sec with {count}"
            return f"{self.label}: {self.batches}. {known}, and no other number of them."
        reached = f"{last.efficiency_percent:.1f} % ± {last.efficiency_uncertainty:.1f} %"
        return (
            f"{self.label}: {self.batches}. From {first.processes} to {last.processes} processes "
            f"{last.speedup:.2f} times the images/sec: {reached} of the ideal."
        )
