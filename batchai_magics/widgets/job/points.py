"""Numbers of a log as the columns that a chart wants, ready to be sent as they are."""

from __future__ import annotations

import struct
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from batchai_magics.metrics.record import EvalRecord, PatternRecord, Record, StepRecord, ValueRecord

if TYPE_CHECKING:
    from batchai_magics.metrics.reading.bulk.columns import Columns

POINT_BYTES = 20
VALUE_BYTES = 12
NO_RANK = -1
_MAX_INT = (1 << 31) - 1


class Points:
    """Step lines as five columns of one length: step and rank as int32; images/sec, loss, jitter as float32.

    `generation` grows when the log was cut and starts again: what was sent before is void.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.others: dict[str, Values] = {}
        self._clear()

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, records: Iterable[Record]) -> None:
        """Takes the step lines among the records, and every other number under its name."""
        every = list(records)
        steps = [record for record in every if isinstance(record, StepRecord)]
        has_accuracies = self._add_steps(steps)
        if len(steps) < len(every) or has_accuracies:
            self._add_others(every)

    def add_columns(self, columns: Columns) -> None:
        """Takes the same from columns, as they are: a big update brings thousands of steps."""
        import numpy as np

        steps = columns.steps
        with np.errstate(over="ignore"):  # what no column holds is infinite
            self._steps.frombytes(np.minimum(steps.step, _MAX_INT).astype(np.int32).tobytes())
            self._ranks.frombytes(steps.rank.astype(np.int32).tobytes())
            for own, column in zip(
                (self._rates, self._losses, self._jitters),
                (steps.images_per_sec, steps.loss, steps.jitter),
                strict=True,
            ):
                own.frombytes(column.astype(np.float32).tobytes())
        has_accuracies = steps.has_accuracy.any()
        self._add_others(columns if has_accuracies else [record for _, record in columns.others])

    def _add_others(self, records: Iterable[Record]) -> None:
        for record in filter(_has_others, records):
            for name, step, value in _others(record):
                values = self.others.setdefault(name, Values())
                values.add(step, getattr(record, "rank", None), value, epoch=getattr(record, "epoch", None))

    def _add_steps(self, records: Sequence[StepRecord]) -> bool:
        """Tells whether some have accuracies."""
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
        """Forgets every number: the log starts again."""
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
    """As `column.extend`, in a third of the time."""
    column.frombytes(struct.pack(f"{len(numbers)}{column.typecode}", *numbers))


class Values:
    """One other number of the log as three columns: step and rank as int32, value as float32."""

    def __init__(self) -> None:
        self._steps = array("i")
        self._ranks = array("i")
        self._values = array("f")
        self._counts: defaultdict[int, int] = defaultdict(int)
        self._epochs: dict[int, _Epoch] = {}

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, step: int | None, rank: int | None, value: float, *, epoch: int | None = None) -> None:
        """Takes a number; where its step is not told, it is the how-manieth of its rank.

        Steps that begin anew with an epoch go on where those of the epoch before ended.
        """
        who = NO_RANK if rank is None else rank
        self._counts[who] += 1
        place = self._counts[who] if step is None else self._in_all(who, step, epoch)
        self._steps.append(min(place, _MAX_INT))
        self._ranks.append(who)
        self._values.append(value)

    def _in_all(self, who: int, step: int, epoch: int | None) -> int:
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
    """An epoch, the latest step in it, and how many steps those before it had."""

    number: int
    step: int
    done: int


def _has_others(record: Record) -> bool:
    return not isinstance(record, StepRecord) or record.top_1 is not None or record.top_5 is not None


def _others(record: Record) -> Iterator[tuple[str, int | None, float]]:
    """Name, step and value of each number in a record beside images/sec and loss."""
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
