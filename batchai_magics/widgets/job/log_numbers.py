"""The numbers of a job's log: columns that a chart is sent, and all records for summaries."""

from __future__ import annotations

import struct
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from batchai_magics.metrics.record import EvalRecord, PatternRecord, Record, StepRecord, ValueRecord

if TYPE_CHECKING:
    from batchai_magics.metrics.reading.bulk.columns import Columns


POINT_BYTES = 20
VALUE_BYTES = 12
NO_RANK = -1
_MAX_INT = (1 << 31) - 1


class StepPoints:
    """Step lines as five columns of equal length: step, rank (int32), images/sec, loss, jitter (float32).

    `generation` increases when the log was truncated: what was sent before is void.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.others: dict[str, NamedValues] = {}
        self._clear()

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, records: Iterable[Record]) -> None:
        """Adds the step lines among the records, and every other number under its name."""
        every = list(records)
        steps = [record for record in every if isinstance(record, StepRecord)]
        has_accuracies = self._add_steps(steps)
        if len(steps) < len(every) or has_accuracies:
            self._add_other_values(every)

    def add_columns(self, columns: Columns) -> None:
        """Adds the same from columns, without building records: a large update has thousands of steps."""
        import numpy as np

        steps = columns.steps
        with np.errstate(over="ignore"):  # values out of range become infinite
            self._steps.frombytes(np.minimum(steps.step, _MAX_INT).astype(np.int32).tobytes())
            self._ranks.frombytes(steps.rank.astype(np.int32).tobytes())
            for own, column in zip(
                (self._rates, self._losses, self._jitters),
                (steps.images_per_sec, steps.loss, steps.jitter),
                strict=True,
            ):
                own.frombytes(column.astype(np.float32).tobytes())
        has_accuracies = steps.has_accuracy.any()
        self._add_other_values(columns if has_accuracies else [record for _, record in columns.others])

    def _add_other_values(self, records: Iterable[Record]) -> None:
        for record in filter(_has_other_values, records):
            for name, step, value in _other_values(record):
                values = self.others.setdefault(name, NamedValues())
                values.add(step, getattr(record, "rank", None), value, epoch=getattr(record, "epoch", None))

    def _add_steps(self, records: Sequence[StepRecord]) -> bool:
        """Adds step lines; returns whether some have accuracies."""
        if not records:
            return False
        steps, ranks, rates, _, jitters, losses, top_1, top_5, *_ = zip(*records, strict=True)
        _extend(self._steps, steps if max(steps) <= _MAX_INT else [min(step, _MAX_INT) for step in steps])
        _extend(self._ranks, [NO_RANK if rank is None else rank for rank in ranks])
        _extend(self._rates, rates)
        _extend(self._losses, losses)
        _extend(self._jitters, jitters)
        return top_1.count(None) + top_5.count(None) < 2 * len(records)

    def columns(self, first: int, count: int) -> list[bytes]:
        """The columns' bytes for `count` points from `first`."""
        columns = (self._steps, self._ranks, self._rates, self._losses, self._jitters)
        return [column[first : first + count].tobytes() for column in columns]

    def restart(self) -> None:
        """Drops all numbers: the log was truncated."""
        self.generation += 1
        self.others = {}
        self._clear()

    def _clear(self) -> None:
        self._steps = array("i")
        self._ranks = array("i")
        self._rates = array("f")
        self._losses = array("f")
        self._jitters = array("f")


def _extend(column: array[Any], numbers: Sequence[float]) -> None:
    """Equivalent to `column.extend`, in a third of the time."""
    column.frombytes(struct.pack(f"{len(numbers)}{column.typecode}", *numbers))


class NamedValues:
    """Another number of the log as three columns: step and rank (int32), value (float32)."""

    def __init__(self) -> None:
        self._steps = array("i")
        self._ranks = array("i")
        self._values = array("f")
        self._counts: defaultdict[int, int] = defaultdict(int)
        self._epochs: dict[int, _Epoch] = {}

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, step: int | None, rank: int | None, value: float, *, epoch: int | None = None) -> None:
        """Adds a value; without a step, the rank's values are numbered.

        Steps that restart with each epoch continue after those of the previous epoch.
        """
        who = NO_RANK if rank is None else rank
        self._counts[who] += 1
        place = self._counts[who] if step is None else self._global_step(who, step, epoch)
        self._steps.append(min(place, _MAX_INT))
        self._ranks.append(who)
        self._values.append(value)

    def _global_step(self, who: int, step: int, epoch: int | None) -> int:
        """The step, counted from the start of the log."""
        if epoch is None:
            return step
        last = self._epochs.get(who, _Epoch(epoch, step, 0))
        is_anew = epoch != last.number and step <= last.step
        done = last.done + max(last.step, 1) if is_anew else last.done
        self._epochs[who] = _Epoch(epoch, step, done)
        return done + step

    def columns(self, first: int, count: int) -> list[bytes]:
        """The columns' bytes for `count` values from `first`."""
        columns = (self._steps, self._ranks, self._values)
        return [column[first : first + count].tobytes() for column in columns]


class _Epoch(NamedTuple):
    """An epoch, its latest step, and the number of steps in earlier epochs."""

    number: int
    step: int
    done: int


def _has_other_values(record: Record) -> bool:
    return not isinstance(record, StepRecord) or record.top_1 is not None or record.top_5 is not None


def _other_values(record: Record) -> Iterator[tuple[str, int | None, float]]:
    """Name, step and value of each number in a record except images/sec and loss."""
    if isinstance(record, (PatternRecord, ValueRecord)):
        yield record.name, record.step, record.value
    elif isinstance(record, (StepRecord, EvalRecord)):
        prefix = "eval " if isinstance(record, EvalRecord) else ""
        for name in ("top_1", "top_5", "examples_per_sec"):
            value = getattr(record, name, None)
            if value is not None:
                yield (
                    f"{prefix}{name.replace('_', '-')}".replace("examples-per-sec", "examples/sec"),
                    record.step,
                    value,
                )


MAX_UNPACKED = 8000  # records kept one by one, before they are packed into columns


class RecordHistory(Collection[Record]):
    """All records of a growing log, in order; most are packed into columns, which the GC need not scan."""

    def __init__(self) -> None:
        self._packed: list[Collection[Record]] = []
        self._unpacked: list[Record] = []  # after the packed ones
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Record]:
        for part in self._packed:
            yield from part
        yield from self._unpacked

    def __contains__(self, record: object) -> bool:
        return any(record == each for each in self)

    def add(self, records: tuple[Record, ...] | Columns) -> None:
        """Appends records."""
        self._count += len(records)
        if isinstance(records, tuple):
            self._unpacked.extend(records)
            if len(self._unpacked) >= MAX_UNPACKED:
                self._pack()
        else:
            self._pack()
            self._packed.append(records)

    def clear(self) -> None:
        """Drops all records: the log was truncated."""
        self._packed, self._unpacked, self._count = [], [], 0

    def _pack(self) -> None:
        from batchai_magics.metrics.reading.bulk.columns import Columns

        if self._unpacked:
            self._packed.append(Columns.of(self._unpacked))
            self._unpacked = []
