"""What a training log says, as values.

`wall_time` is when the line was printed, in seconds since 1970; None where nothing tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, cast

ATTEMPT = "attempt"  # key of the entry of a header with which a job begins once more


class StepRecord(NamedTuple):
    """One step line of tf_cnn_benchmarks (format: tensorflow/benchmarks, `benchmark_cnn.py`).

    `images_per_sec` is the cumulative mean since warm-up of the process that printed it;
    `uncertainty` its standard error; `jitter` the scaled median absolute deviation. `rank` is None
    where the log does not tell. `offset` is the byte offset, in its stream, of the line's end.
    A tuple, because a log has so many of them: it is made in half the time that a frozen dataclass takes.
    """

    step: int
    rank: int | None
    images_per_sec: float
    uncertainty: float
    jitter: float
    loss: float
    top_1: float | None = None
    top_5: float | None = None
    offset: int = 0
    wall_time: float | None = None


@dataclass(frozen=True, slots=True)
class TotalRecord:
    """A `total images/sec` line. Every rank repeats the job's total: never add them up."""

    images_per_sec: float
    rank: int | None
    offset: int = 0
    wall_time: float | None = None


@dataclass(frozen=True, slots=True)
class EvalRecord:
    """An evaluation: examples per second at a step, or the accuracies at the end (fractions of 1)."""

    rank: int | None
    step: int | None = None
    examples_per_sec: float | None = None
    top_1: float | None = None
    top_5: float | None = None
    examples: int | None = None
    offset: int = 0
    wall_time: float | None = None


@dataclass(frozen=True, slots=True)
class HeaderRecord:
    """One line of the header block: `Model:       resnet50` is key `model`, value `resnet50`."""

    key: str
    value: str
    rank: int | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class PatternRecord:
    """A number that the user's own pattern `name` found: its first group, or the group named `value`.

    `step` is what the group named `step` found, None without one.
    """

    name: str
    value: float
    step: int | None
    rank: int | None
    offset: int = 0
    wall_time: float | None = None


@dataclass(frozen=True, slots=True)
class ValueRecord:
    """A number that another program than tf_cnn_benchmarks printed, under the name and in the unit it gave.

    `step` counts what the program counts: steps, batches or samples, since the start or within `epoch`. Both
    are None where the log does not tell. An evaluation's number has `val_` or `test_` in its name.
    """

    name: str
    value: float
    unit: str = ""
    step: int | None = None
    epoch: int | None = None
    rank: int | None = None
    offset: int = 0
    wall_time: float | None = None


# As `StepRecord._make`, which is Python and takes half as long again.
step_record = cast("Callable[[Iterable[object]], StepRecord]", partial(tuple.__new__, StepRecord))
"""Makes a step record of its fields, in order."""

Record = StepRecord | TotalRecord | EvalRecord | HeaderRecord | PatternRecord | ValueRecord


def at_offset(record: Record, offset: int) -> Record:
    """The same record, its line ending at this offset of its stream."""
    if isinstance(record, StepRecord):
        return step_record((*record[:8], offset, record.wall_time))
    return replace(record, offset=offset)
