"""The records that the parser finds in a training log, and their values as JSON.

`wall_time` is when the line was printed, in seconds since 1970 (UTC); None if unknown. `rank` is None if the
log does not identify the process. `offset` is the byte offset of the line's end in its stream.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, NamedTuple, cast

ATTEMPT = "attempt"
"""The key of the fact that another attempt begins."""

FIT = "fit"
"""The key of the fact that a heading names the fit below it: `Fold 2`, `Seed 42`, `Refit`."""

LENGTH = "counter_length"
"""The key of the fact how far a counter of steps goes, and which metric is beside it: `40 loss`.

It comes where a rank first prints it, as in `36/40 loss: 0.5`, in front of the numbers of that line.
"""

TOTAL = "total_images_per_sec"
"""The key of the speed that a run tells at its end. Every rank repeats the total of all: never sum them."""

RATE_UNIT = "images/sec"


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


class MetricName(NamedTuple):
    """What all measurements of a metric have in common."""

    name: str
    unit: str
    phase: str


# `_make` is pure Python and takes half as long again.
make_fact = cast("Callable[[Iterable[object]], Fact]", partial(tuple.__new__, Fact))
"""Make a fact from its fields, in order."""

measurement = cast("Callable[[Iterable[object]], Measurement]", partial(tuple.__new__, Measurement))
"""Make a measurement from its fields, in order."""

Record = Fact | Measurement


def lines_of(records: Iterable[Record]) -> Iterator[list[Measurement]]:
    """The measurements of each line; a name that repeats begins the next one of joined lines."""
    line: list[Measurement] = []
    position, names = None, set[str]()
    for record in records:
        if not isinstance(record, Measurement):
            continue
        name, _, _, step, epoch, rank, offset, time, _ = record
        if position != (offset, rank, step, epoch, time) or name in names:
            if line:
                yield line
            line, names, position = [], set(), (offset, rank, step, epoch, time)
        line.append(record)
        names.add(name)
    if line:
        yield line


def json_value(value: Any) -> Any:
    """Convert a value for JSON at any depth: tuples to lists, enums to values, records to objects.

    None becomes null. A printed number that is not finite becomes "NaN", "Infinity" or "-Infinity".
    """
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    return [json_value(item) for item in value] if isinstance(value, (list, tuple)) else value
