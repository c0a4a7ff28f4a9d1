"""The records that the parser finds in a training log, and their values as JSON.

`wall_time` is when the line was printed, in seconds since 1970 (UTC); None if unknown. `rank` is None if the
log does not identify the process. `offset` is the byte offset of the line's end in its stream.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, NamedTuple, cast

ATTEMPT = "attempt"
"""The key of the fact that another attempt begins."""

TOTAL = "total_images_per_sec"
"""The key of the speed that a run tells at its end. Every rank repeats the total of all: never sum them."""

RATE_UNIT = "images/sec"


class StepRecord(NamedTuple):
    """A step line of tf_cnn_benchmarks (source of the format: tensorflow/benchmarks, `benchmark_cnn.py`).

    `images_per_sec` is the cumulative mean since warm-up of the process that printed it, `uncertainty` its
    standard error and `jitter` the scaled median absolute deviation, all in images/sec; `top_1` and `top_5`
    are fractions. A NamedTuple takes half as long to create as a frozen dataclass, which matters for the
    number of them in a log.
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


class Fact(NamedTuple):
    """What a log tells of its run: `Model:       resnet50` has key `model`, value `resnet50`."""

    key: str
    value: str
    rank: int | None = None
    offset: int = 0
    wall_time: float | None = None


class Measurement(NamedTuple):
    """A value of a metric, under the name and unit that the program printed or the user gave its pattern.

    `step` counts steps, batches or samples, from the start of the run or of `epoch`, which may be a fraction;
    both are None if the log tells neither. `phase` is `train`, `val` or `test`; the names of the last two
    start with `val_` or `test_`.
    """

    name: str
    value: float
    unit: str = ""
    step: int | None = None
    epoch: float | None = None
    rank: int | None = None
    offset: int = 0
    wall_time: float | None = None
    phase: str = "train"


# `StepRecord._make` is pure Python and takes half as long again.
step_record = cast("Callable[[Iterable[object]], StepRecord]", partial(tuple.__new__, StepRecord))
"""Make a step record from its fields, in order."""

measurement = cast("Callable[[Iterable[object]], Measurement]", partial(tuple.__new__, Measurement))
"""Make a measurement from its fields, in order."""

Record = StepRecord | Fact | Measurement


def at_offset(record: Record, offset: int) -> Record:
    """The record with another line-end offset."""
    return record._replace(offset=offset)


def json_value(value: Any) -> Any:
    """Convert a value for JSON at any depth: tuples to lists, enums to values, records to objects.

    None becomes null. A printed number that is not finite becomes "NaN", "Infinity" or "-Infinity".
    """
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float):
        return _number(value)
    members = _members(value)
    if members is not None:
        return {str(key): json_value(item) for key, item in members.items()}
    return [json_value(item) for item in value] if isinstance(value, (list, tuple)) else value


def _members(value: Any) -> Mapping[Any, Any] | None:
    """The items of a record or mapping; None for any other value."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return value if isinstance(value, Mapping) else None


def _number(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
