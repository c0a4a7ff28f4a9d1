"""Places the numbers of a log on one axis of steps, or of epochs, over the whole run."""

from __future__ import annotations

from dataclasses import dataclass, field

from batchai_magics.metrics.grammar.metric_names import TRAIN


@dataclass(slots=True)
class _RankPosition:
    """The last step of a rank, its epoch, and the number of steps in earlier epochs."""

    epoch: float | None
    step: int
    done: int = 0

    @property
    def position(self) -> int:
        """The step, counted from the start of the run."""
        return self.done + self.step


class StepCounter:
    """Counts steps over a run, for numbers given in file order.

    Steps that restart with each epoch continue after those of the previous one. A number without a step
    stands at its rank's last step; so does a validation number if only the batches of validation are counted.
    """

    def __init__(self) -> None:
        self._ranks: dict[int | None, _RankPosition] = {}

    @property
    def has_steps(self) -> bool:
        """Whether a step was given."""
        return bool(self._ranks)

    def run_step(
        self, rank: int | None, step: int | None, epoch: float | None = None, phase: str = TRAIN
    ) -> int | None:
        """The step of a number, counted from the start of the run; None before its rank's first step."""
        last = self._ranks.get(rank)
        if step is None:
            return last.position if last else None
        if last is None:
            last = self._ranks[rank] = _RankPosition(epoch, step)
        elif phase != TRAIN:
            return step if epoch is None else max(last.done + step, last.position)
        elif epoch is not None and epoch != last.epoch and step <= last.step:
            last.done += max(last.step, 1)
        last.epoch, last.step = epoch, step
        return last.position


@dataclass(slots=True)
class _EpochPosition:
    """The last epoch of a rank, its number, and the metrics that have a value there."""

    epoch: float | None = None
    number: int = 0
    names: set[str] = field(default_factory=set)


class EpochCounter:
    """Numbers the points of a log that tells epochs but no steps, alike for all metrics.

    The metrics of one epoch share a number; a metric with several values in an epoch gets several numbers.
    """

    def __init__(self) -> None:
        self._ranks: dict[int | None, _EpochPosition] = {}

    def number(self, rank: int | None, epoch: float, name: str) -> int:
        """The number of the next value of a metric, from 1 on."""
        last = self._ranks.setdefault(rank, _EpochPosition())
        if epoch != last.epoch or name in last.names:
            last.epoch, last.number, last.names = epoch, last.number + 1, set()
        last.names.add(name)
        return last.number
